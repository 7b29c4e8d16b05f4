"""A Keras training step on torch."""

from collections.abc import Callable
from typing import Any

import torch

from gradwatch.capture.keras.backends.keras_backend import KerasBackend
from gradwatch.capture.keras.backends.wrapped_step import watched
from gradwatch.capture.keras.checked_call import StepChecks
from gradwatch.core import KerasModel
from gradwatch.measure import framework
from gradwatch.measure.torch_eager import EagerStep
from gradwatch.util import Reporter


class TorchBackend(KerasBackend):
    """The step is a function of the batch; nothing is traced unless it is compiled."""

    framework = framework("torch")

    def __init__(self) -> None:
        self._histograms_due = False

    def wrap(self, train_step: Any, observation: Any) -> Any:
        def measure(due: None, result: Any) -> Any:
            with torch.no_grad():
                observation.note_logs(result)
                return observation.measure(self._histograms_due)

        return watched(train_step, observation, measure, has_state=False)

    def arguments(self, args: Any, histograms_due: bool) -> Any:
        self._histograms_due = histograms_due
        return args

    def eager_step(self, model: KerasModel, size: Callable[[], int]) -> EagerStep | None:
        return None if _is_traced(model) else EagerStep(size(), self._histograms_due)

    def runs_eagerly(self, model: KerasModel) -> bool:
        return not _is_traced(model)

    def step_checks(self, model: KerasModel, send: Any, reporter: Reporter) -> Any:
        return None if _is_traced(model) else StepChecks(model, send, reporter)


def _is_traced(model: KerasModel) -> bool:
    return bool(model.compiled and model.jit_compile and not model.run_eagerly)
