"""Assertions for tests of models."""

import tempfile
from pathlib import Path
from typing import Any

from gradwatch.diagnosis import DiagnosisSpec, Finding, Severity, as_severity
from gradwatch.record import Monitor


def assert_trains(
    model: Any,
    x: Any,
    y: Any = None,
    *,
    steps: int = 100,
    batch_size: int | None = None,
    severity: Severity | str = Severity.WARNING,
    diagnose: DiagnosisSpec = True,
    **fit: Any,
) -> list[Finding]:
    """Train a compiled Keras model for some steps; fail if the diagnosis finds a problem.

    The model itself is trained. Pass a copy to keep the original.

    Args:
        model: the model.
        x, y: as for `fit`: arrays, or a dataset.
        steps: how many training steps to run; the data is repeated as needed.
        batch_size: as for `fit`.
        severity: the least severity that fails.
        diagnose: rules, silences and thresholds, as for `Monitor`.
        fit: other arguments for `fit`.

    Returns:
        The findings of lower severity.

    Raises:
        AssertionError: there is a finding; the message says what, where, and what to do.

    Example:

    >>> import os; _ = os.environ.setdefault("KERAS_BACKEND", "jax")
    >>> import keras, numpy as np
    >>> from gradwatch.testing import assert_trains
    >>> x = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    >>> model.compile(keras.optimizers.SGD(0.1), "mse")
    >>> assert_trains(model, x, x.sum(1, keepdims=True), steps=20)
    []
    """
    least = as_severity("severity", severity) or Severity.WARNING
    with tempfile.TemporaryDirectory(prefix="gradwatch-test-") as directory:
        monitor = Monitor(Path(directory), every=1, sinks=[], diagnose=diagnose)
        fit.setdefault("verbose", 0)
        callbacks = fit.pop("callbacks", None) or []
        callbacks = list(callbacks) if isinstance(callbacks, list | tuple) else [callbacks]
        callbacks += [_stop_after(steps), monitor]
        model.fit(x, y, batch_size=batch_size, epochs=steps, callbacks=callbacks, **fit)
        monitor.close()
    bad = [f for f in monitor.findings if not f.explained_by and f.severity.rank >= least.rank]
    if bad:
        raise AssertionError("The model does not train well:\n" + "\n".join(f.text() for f in bad))
    return list(monitor.findings)


def _stop_after(steps: int) -> Any:
    """A Keras callback that ends `fit` after a number of steps."""
    import keras

    class StepLimit(keras.callbacks.Callback):  # type: ignore[misc]
        begun = 0

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            self.begun += self._model.steps_per_execution
            if self.begun >= steps:
                self._model.stop_training = True

    return StepLimit()
