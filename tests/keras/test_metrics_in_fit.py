"""Everything that Keras reports in `fit` is recorded, at every step and every epoch."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import gradwatch
from gradwatch import Kind

STEPS = 12


class Batches(keras.callbacks.Callback):
    """Keeps the logs of every batch, as a user's own callback sees them."""

    def __init__(self) -> None:
        super().__init__()
        self.logs: list[dict[str, float]] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.logs.append(dict(logs))


def data(batches: int = STEPS) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(8 * batches, 4)).astype("f"), rng.integers(0, 3, 8 * batches)


def classifier(**options: Any) -> Any:
    model = keras.Sequential([keras.layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"], **options)
    return model


def recorded(run: Any, kind: Kind) -> dict[str, tuple[list[int], list[float]]]:
    found = {site.path: run.series(kind, site.path, "value") for site in run.sites(kind)}
    return {path: (steps.tolist(), values.tolist()) for path, (steps, values) in found.items()}


@pytest.mark.parametrize(
    "options",
    [{"every": 5}, {"every": 5, "watch": [gradwatch.weights()]}, {"every": 5, "layers": "dense*"}],
    ids=["all", "watch", "layers"],
)
def test_all_logs_of_batches_and_epochs_are_recorded(tmp_path: Any, options: Any) -> None:
    monitor, batches = gradwatch.Monitor(tmp_path, sinks=[gradwatch.Store()], **options), Batches()
    x, y = data()
    history = classifier().fit(
        x, y, batch_size=8, epochs=2, validation_data=(x, y), verbose=0,
        callbacks=[monitor, batches],
    ).history  # fmt: skip
    run = gradwatch.open(tmp_path)
    steps = list(range(1, 2 * STEPS + 1))
    assert recorded(run, Kind.METRIC) == {
        name: (steps, [logs[name] for logs in batches.logs]) for name in ("accuracy", "loss")
    }
    assert recorded(run, Kind.EPOCH_METRIC) == {
        name: ([STEPS, 2 * STEPS], values) for name, values in history.items()
    }
    # The loss and the learning rate of the measured steps are there, whatever is watched.
    assert run.steps("loss").tolist() == [s for s in steps if s % 5 == 0]
    assert [site.path for site in run.sites("scalar")] == [
        "batch_size", "learning_rate", "constant_loss", "input_spread",
    ]  # fmt: skip
    assert {5, 10, 15, 20} <= set(run.measured_steps.tolist()) < set(steps)
    assert run.steps().tolist() == steps


@pytest.mark.any_backend
def test_epochs_end_at_their_true_steps_when_little_is_measured(tmp_path: Any) -> None:
    x, y = data()
    monitor = gradwatch.Monitor(
        tmp_path, watch=[gradwatch.gradients(every=1000)], sinks=[gradwatch.Store()]
    )
    generator = ((x[:8], y[:8]) for _ in range(3 * 7))
    classifier().fit(
        generator, steps_per_epoch=7, epochs=3, verbose=0, callbacks=[monitor], shuffle=False
    )
    run = gradwatch.open(tmp_path)
    assert [(e.first_step, e.last_step) for e in run.epochs] == [(1, 7), (8, 14), (15, 21)]


@pytest.mark.filterwarnings("ignore:Your input ran out of data:UserWarning")
@pytest.mark.any_backend
def test_an_epoch_of_unknown_length_ends_at_its_last_step(tmp_path: Any) -> None:
    x, y = data()
    monitor = gradwatch.Monitor(tmp_path, every=2, sinks=[gradwatch.Store()])
    generator = ((x[:8], y[:8]) for _ in range(5))
    classifier().fit(generator, verbose=0, callbacks=[monitor], shuffle=False)
    run = gradwatch.open(tmp_path)
    assert run.steps("epoch_metric").tolist() == [5]
    assert run.steps("metric").tolist() == [1, 2, 3, 4, 5]


def test_an_evaluation_within_fit_is_recorded_and_does_not_disturb_it(tmp_path: Any) -> None:
    x, y = data()
    monitor = gradwatch.Monitor(tmp_path, every="epoch", sinks=[gradwatch.Store()])
    results = []

    class Evaluates(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            result = self.model.evaluate(
                x[:16], y[:16], batch_size=8, callbacks=[monitor], verbose=0, return_dict=True
            )
            results.append(result["loss"])

    history = classifier().fit(
        x, y, batch_size=8, epochs=2, validation_data=(x, y), verbose=0,
        callbacks=[Evaluates(), monitor],
    ).history  # fmt: skip
    run = gradwatch.open(tmp_path)
    metrics = recorded(run, Kind.EPOCH_METRIC)
    assert metrics["test_loss"] == ([STEPS, 2 * STEPS], results)
    assert metrics["val_loss"] == ([STEPS, 2 * STEPS], history["val_loss"])
    # "epoch" stands for the last of the epoch's batches, not of the evaluation's.
    assert run.steps("gradient").tolist() == [STEPS, 2 * STEPS]


@pytest.mark.any_backend
def test_a_validation_that_is_nan_is_no_other_evaluation(tmp_path: Any) -> None:
    x, y = data()
    monitor = gradwatch.Monitor(tmp_path, every="epoch", sinks=[gradwatch.Store()])
    classifier().fit(
        x, y, batch_size=8, validation_data=(x * np.nan, y), verbose=0, callbacks=[monitor]
    )
    metrics = recorded(gradwatch.open(tmp_path), Kind.EPOCH_METRIC)
    assert np.isnan(metrics["val_loss"][1]).all()
    assert set(metrics) == {"accuracy", "loss", "val_accuracy", "val_loss"}


def test_logs_of_a_train_step_of_ones_own_are_recorded(tmp_path: Any) -> None:
    class Gan(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(1)
            self.d_loss = keras.metrics.Mean(name="d_loss")

        def call(self, x: Any) -> Any:
            return self.dense(x)

        def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
            loss = super().compute_loss(*args, **kwargs)
            self.d_loss.update_state(2.0 * loss)
            return loss

    x, _ = data()
    model = Gan()
    model.compile("sgd", "mse")
    monitor, batches = gradwatch.Monitor(tmp_path, every=4, sinks=[gradwatch.Store()]), Batches()
    model.fit(x, x[:, :1], batch_size=8, verbose=0, callbacks=[monitor, batches])
    metrics = recorded(gradwatch.open(tmp_path), Kind.METRIC)
    assert metrics["d_loss"] == (
        list(range(1, STEPS + 1)),
        [logs["d_loss"] for logs in batches.logs],
    )


@pytest.mark.any_backend
def test_training_that_goes_back_leaves_no_metrics_of_steps_that_it_repeats(tmp_path: Any) -> None:
    x, y = data()
    monitor = gradwatch.Monitor(
        tmp_path, watch=[gradwatch.gradients(every=1000)], sinks=[gradwatch.Store()]
    )

    class GoesBack(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if epoch == 1:
                iterations = self.model.optimizer._iterations
                iterations.assign(iterations.value * 0 + 6)

    model = classifier()
    model.fit(x, y, batch_size=8, epochs=3, verbose=0, callbacks=[GoesBack(), monitor])
    run = gradwatch.open(tmp_path)
    steps, values = run.series("metric", "loss", "value")
    assert steps.tolist() == list(range(1, 6 + STEPS + 1))
    assert run.series("epoch_metric", "loss", "value")[1][-1] == values[-1]


@pytest.mark.any_backend
def test_logs_that_are_no_numbers_are_left_out(tmp_path: Any) -> None:
    class Writes(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            logs |= {"name": "a", "several": [1.0, 2.0], "none": None, "whole": np.int64(3)}

    x, y = data()
    monitor = gradwatch.Monitor(tmp_path, every=4, sinks=[gradwatch.Store()])
    classifier().fit(x, y, batch_size=8, verbose=0, callbacks=[Writes(), monitor])
    metrics = recorded(gradwatch.open(tmp_path), Kind.EPOCH_METRIC)
    assert metrics["whole"] == ([STEPS], [3.0])
    assert set(metrics) == {"accuracy", "loss", "whole"}
