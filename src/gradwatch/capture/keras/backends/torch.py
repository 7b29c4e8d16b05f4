"""A Keras training step on torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gradwatch.measure import torch as measure


class TorchBackend:
    """The step is a function of the batch; nothing is traced unless it is compiled."""

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

    def fetch(self, measured: Any, names: list[str]) -> Callable[[], dict[str, Any]]:
        waits = {name: _copy_to_host(measured[name]) for name in names}
        return lambda: {name: wait() for name, wait in waits.items()}

    def scope(self) -> Any:
        return None

    def snapshot(self, value: Any) -> Any:
        return value.detach().clone()

    def difference(self, after: Any, before: Any) -> Any:
        wide = torch.promote_types(after.dtype, torch.float32)
        return after.detach().to(wide) - before.to(wide)

    def summarize(self, tensors: Any) -> Any:
        return measure.summarize(tensors)

    def count_cells(self, tensors: Any, due: Any) -> Any:
        return measure.count_cells(tensors if due else [])


def _copy_to_host(tensor: Any) -> Callable[[], Any]:
    if not tensor.is_cuda:
        return lambda: tensor.cpu().numpy()
    # Into pinned memory, so that the copy joins the device's own queue and the
    # training thread goes on.
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    host.copy_(tensor, non_blocking=True)
    copied = torch.cuda.Event()
    copied.record()

    def wait() -> Any:
        copied.synchronize()
        return host.numpy()

    return wait
