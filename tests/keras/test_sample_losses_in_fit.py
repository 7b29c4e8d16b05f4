"""The losses of single samples in `fit`, before Keras reduces them."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import gradwatch
from gradwatch.capture.keras.again import step_keeper
from gradwatch.core import worst_in
from tests.keras.support import Keep

SIZES = (8, 8, 2)
"""Of the batches; the last one has fewer samples than are recorded."""


def trained(loss: Any, y: np.ndarray, weights: np.ndarray | None, **options: Any) -> Any:
    """By step, the worst samples; and a model that never changes."""
    keras.utils.set_random_seed(0)
    x = np.random.default_rng(1).standard_normal((sum(SIZES), 4)).astype("f")
    inputs = keras.Input((4,))
    model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    model.compile(keras.optimizers.SGD(0.0), loss, **options)
    keep = Keep()
    monitor = gradwatch.Monitor(None, every=1, sinks=[keep])
    model.fit(x, y, sample_weight=weights, batch_size=8, shuffle=False, verbose=0,
              callbacks=[monitor])  # fmt: skip
    found = [reading.numbers(gradwatch.Kind.SAMPLE_LOSS) for reading in keep.readings]
    return found, model.predict(x, verbose=0).astype("f8")[:, 0]


def own_loss(y_true: Any, y_pred: Any) -> Any:
    return keras.ops.abs(y_true - y_pred)[:, 0]


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("loss", ["mse", keras.losses.MeanAbsoluteError(), own_loss])
def test_the_worst_samples_of_a_step_are_those_of_the_data(loss: Any, is_weighted: bool) -> None:
    rng = np.random.default_rng(0)
    y = rng.standard_normal(sum(SIZES)).astype("f")
    weights = rng.uniform(0, 2, y.size).astype("f") if is_weighted else None
    found, predicted = trained(loss, y[:, None], weights)
    each = (predicted - y) ** 2 if loss == "mse" else np.abs(predicted - y)
    each = each if weights is None else each * weights
    for step, size in enumerate(SIZES):
        own = each[8 * step : 8 * step + size]
        worst = np.argsort(-own)[:3]
        samples = worst_in(found[step])
        assert [sample.index for sample in samples] == worst.tolist()
        np.testing.assert_allclose([sample.loss for sample in samples], own[worst], rtol=1e-5)
        assert found[step]["median"] == pytest.approx(np.median(own), rel=1e-5)
        assert found[step]["samples"] == size


def test_several_losses_and_one_that_is_reduced_already_have_no_samples() -> None:
    y = np.zeros((sum(SIZES), 1), "f")
    found, _ = trained(lambda a, b: keras.ops.mean((a - b) ** 2), y, None)
    assert found == [{}, {}, {}]
    inputs = keras.Input((4,))
    model = keras.Model(inputs, [keras.layers.Dense(1)(inputs), keras.layers.Dense(1)(inputs)])
    model.compile("sgd", ["mse", "mae"])
    keep = Keep()
    monitor = gradwatch.Monitor(None, every=1, sinks=[keep])
    model.fit(np.ones((8, 4), "f"), [y[:8], y[:8]], verbose=0, callbacks=[monitor])
    assert keep.readings[0].numbers(gradwatch.Kind.SAMPLE_LOSS) == {}


@pytest.mark.skipif(keras.backend.backend() == "torch", reason="steps are not kept on torch")
def test_a_spike_in_a_step_that_was_not_measured_names_its_sample(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_keeper, "SINGLE_SECONDS", np.inf)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((120 * 16, 4)).astype("f")
    y = x.sum(1, keepdims=True)
    y[16 * 92 + 5] = 90.0
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.02), "mse")
    monitor = gradwatch.Monitor(tmp_path, sinks=[gradwatch.Store()])
    model.fit(x, y, batch_size=16, shuffle=False, verbose=0, callbacks=[monitor])
    (spike,) = [finding for finding in monitor.findings if finding.rule == "loss-spike"]
    assert spike.since == 93
    assert "by sample 5 of the batch" in spike.title
    assert gradwatch.open(tmp_path).samples()[93][0].index == 5
