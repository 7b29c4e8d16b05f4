"""A Keras training step on torch."""

from __future__ import annotations

from typing import Any

import torch

from gradwatch.capture.frameworks import framework


class TorchBackend:
    """The step is a function of the batch; nothing is traced unless it is compiled."""

    framework = framework("torch")

    def __init__(self) -> None:
        self._histograms_due = False

    def wrap(self, train_step: Any, observation: Any) -> Any:
        def measured_train_step(data: Any) -> Any:
            with observation.watching():
                logs = train_step(data)
            with torch.no_grad():
                return {"logs": logs, "measured": observation.measure(self._histograms_due)}

        return measured_train_step

    def arguments(self, args: Any, histograms_due: bool) -> Any:
        self._histograms_due = histograms_due
        return args

    def results(self, output: Any) -> tuple[Any, Any]:
        return output["logs"], output["measured"]

    def one_batch(self, args: Any) -> Any:
        return args

    def advance(self, args: Any, result: Any) -> Any:
        return args

    def scope(self) -> Any:
        return None
