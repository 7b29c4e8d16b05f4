"""What is not measured yet is refused in words, and trains all the same."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import pytest

from tests.keras.support_behaviour import fit, linear_model

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="tf.distribute is TensorFlow's"
)


# In a process of its own: devices can only be divided before TensorFlow uses them.
SCRIPT = """
import warnings, sys
import keras, numpy as np, tensorflow as tf
import gradwatch
(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.experimental.CentralStorageStrategy(["CPU:0", "CPU:1"])
def train(*callbacks):
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=False)
    x, y = np.ones((8, 3), "float32"), np.ones((8, 2), "float32")
    model.fit(x, y, batch_size=4, epochs=2, verbose=0, callbacks=list(callbacks))
    return model
with warnings.catch_warnings(record=True) as given:
    warnings.simplefilter("always")
    model = train(gradwatch.Monitor(sys.argv[1], every=1))
said = [str(w.message) for w in given if w.category is gradwatch.GradwatchWarning]
bare = train()
same = all(np.array_equal(a.numpy(), b.numpy()) for a, b in zip(model.weights, bare.weights))
moved = float(np.abs(model.weights[1].numpy()).max())
steps = int(model.optimizer.iterations.numpy())
print(repr((strategy.num_replicas_in_sync, said, same, moved, steps)))
"""


def test_replicas_of_another_strategy_are_refused_in_words_and_train_on(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "run")],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    replicas, said, is_same, moved, steps = ast.literal_eval(done.stdout.splitlines()[-1])
    assert replicas == 2
    assert said == [
        "The model trains on 2 replicas with tf.distribute.CentralStorageStrategy, which gradwatch "
        "does not measure in fit, only tf.distribute.MirroredStrategy. Nothing is recorded. In a "
        "loop of your own, see docs/distributed.md."
    ]
    assert is_same
    assert moved > 0.0
    assert steps == 4
    assert not (tmp_path / "run").exists()


def test_a_single_replica_is_measured(make_monitor: Any) -> None:
    import tensorflow as tf

    monitor, keep = make_monitor(every=1)
    with tf.distribute.OneDeviceStrategy("CPU:0").scope():
        model = linear_model()
    fit(model, 2, monitor)
    assert keep.steps == [1, 2]
