"""Models that are put together in unusual ways are measured like all others."""

from __future__ import annotations

import warnings
from typing import Any

import keras
import numpy as np
import pytest

import gradwatch
from gradwatch import Kind, Site
from tests.keras.support import normal
from tests.keras.support_behaviour import BATCH, fit, linear_gradients

backend = keras.backend.backend()
if backend == "jax":
    from keras.src.backend.jax.trainer import JAXTrainer as Trainer
elif backend == "torch":
    from keras.src.backend.torch.trainer import TorchTrainer as Trainer
else:
    from keras.src.backend.tensorflow.trainer import TensorFlowTrainer as Trainer


class Line(Trainer, keras.layers.Dense):
    """A layer that is a trainer, and no `keras.Model`."""

    def __init__(self) -> None:
        keras.layers.Dense.__init__(self, 2, name="line")
        Trainer.__init__(self)


class Pair(Trainer, keras.layers.Layer):
    """The same with layers inside."""

    def __init__(self) -> None:
        keras.layers.Layer.__init__(self, name="pair")
        Trainer.__init__(self)
        self.first = keras.layers.Dense(4, name="first")
        self.second = keras.layers.Dense(2, name="second")

    def call(self, x: Any) -> Any:
        return self.second(self.first(x))


@pytest.mark.parametrize("eagerly", [False, True])
def test_a_layer_that_is_a_trainer_is_measured(make_monitor: Any, eagerly: bool) -> None:
    model = Line()
    model.build((None, 3))
    model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=eagerly)
    weights = [np.array(keras.ops.convert_to_numpy(w)) for w in model.weights]
    monitor, keep = make_monitor(every=1)
    fit(model, 1, monitor)
    truth = linear_gradients(weights, normal(BATCH, 3), normal(BATCH, 2, seed=1))
    (reading,) = keep.readings
    for name, expected in zip(("kernel", "bias"), truth.values(), strict=True):
        for kind, factor in ((Kind.GRADIENT, 1.0), (Kind.UPDATE, -0.1)):
            found = keep.series(kind, f"line/{name}", "l2")
            np.testing.assert_allclose(found, [np.linalg.norm(factor * expected)], rtol=1e-5)
    assert Site(Kind.LOSS, "loss") in reading.position


@pytest.mark.any_backend
def test_the_layers_inside_such_a_trainer_are_measured(make_monitor: Any) -> None:
    model = Pair()
    model.compile("adam", "mse")
    monitor, keep = make_monitor(every=1)
    fit(model, 2, monitor)
    sites = {str(site) for reading in keep.readings for site in reading.sites}
    assert {"gradient pair/first/kernel", "output pair/first", "output pair/second"} <= sites
    assert len(gradwatch.sites(model)) > 8


class Nested(keras.Model):
    def __init__(self, pack: Any) -> None:
        super().__init__(name="nested")
        self.layer = keras.layers.Dense(2, name="out")
        self.pack = pack

    def call(self, x: Any) -> Any:
        return self.pack(self.layer(x))


@pytest.mark.parametrize(
    "pack", [lambda x: [[x]], lambda x: {"a": [x]}, lambda x: {"a": {"b": x}}, lambda x: [(x,)]]
)
@pytest.mark.any_backend
def test_nested_losses_cost_no_diagnosis(make_monitor: Any, pack: Any) -> None:
    model = Nested(pack)
    model.compile("sgd", loss=pack("mse"))
    monitor, _ = make_monitor(every=1, on_finding=lambda finding: None)
    y = np.full((BATCH, 2), np.nan, "float32")
    try:
        model.fit(normal(BATCH, 3), pack(np.zeros_like(y)), verbose=0)
    except (TypeError, ValueError):
        pytest.skip("Keras itself does not train it on this backend")
    model.fit(normal(BATCH, 3), pack(y), callbacks=[monitor], verbose=0)
    (finding,) = [each for each in monitor.findings if each.rule == "non-finite"]
    assert str(finding.sites[0]).startswith("target target/")


def test_the_optimizers_of_a_multi_optimizer_are_told_apart(make_monitor: Any) -> None:
    multi_optimizer = pytest.importorskip("keras.src.optimizers.multi_optimizer")
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(4, name="a"), keras.layers.Dense(2, name="b")],
        name="net",
    )
    chosen = multi_optimizer.OptimizerMap(keras.optimizers.SGD(0.1, name="plain"))
    chosen["net/a/.*"] = keras.optimizers.SGD(0.01, clipvalue=1e-3, name="clipped")
    model.compile(multi_optimizer.MultiOptimizer(chosen), "mse")
    watch = [gradwatch.gradients(), gradwatch.applied_gradients(), gradwatch.updates()]
    monitor, keep = make_monitor(every=1, watch=[*watch, gradwatch.scalars()])
    fit(model, 2, monitor)
    for i in range(2):
        largest = keep.series(Kind.APPLIED_GRADIENT, "net/a/kernel", "linf")[i]
        assert largest == pytest.approx(1e-3)
        changes = keep.series(Kind.UPDATE, "net/a/kernel", "linf")[i]
        assert changes == pytest.approx(1e-5, rel=1e-2)
        applied = keep.series(Kind.APPLIED_GRADIENT, "net/b/kernel", "l2")[i]
        assert applied == keep.series(Kind.GRADIENT, "net/b/kernel", "l2")[i]
    rates = {
        n: keep.series(Kind.SCALAR, f"learning_rate/{n}", "mean") for n in ("plain", "clipped")
    }
    assert rates == {"plain": pytest.approx([0.1] * 2), "clipped": pytest.approx([0.01] * 2)}
    assert "clipvalue=0.001" in keep.runs[0].meaning[Kind.APPLIED_GRADIENT]


def test_outputs_of_quantized_layers_are_seen(make_monitor: Any) -> None:
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(4, name="a"), keras.layers.Dense(2, name="b")],
        name="net",
    )
    model.layers[0].quantize("int8")
    model.compile(keras.optimizers.SGD(0.1), "mse")
    x = normal(BATCH, 3)
    expected = np.linalg.norm(
        keras.ops.convert_to_numpy(model.layers[0](keras.ops.convert_to_tensor(x)))
    )
    monitor, keep = make_monitor(every=1, watch=[gradwatch.outputs(), gradwatch.output_gradients()])
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=gradwatch.GradwatchWarning)
        fit(model, 1, monitor)
    assert keep.series(Kind.OUTPUT, "net/a", "l2") == pytest.approx([expected], rel=1e-4)
    assert keep.series(Kind.OUTPUT_GRADIENT, "net/a", "l2")[0] > 0
    assert not {"call", "quantized_call"} & vars(model.layers[0]).keys()
