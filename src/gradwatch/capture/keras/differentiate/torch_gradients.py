"""Differentiates with torch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
import torch

from gradwatch.capture.keras.differentiate.differentiator import Compute


class TorchDifferentiator:
    """Through `torch.autograd.grad`, which leaves the parameters' `grad` alone."""

    def gradients(self, compute: Compute, values: list[Any], x: Any) -> tuple[Any, list[Any]]:
        values = [value if value.requires_grad else _leaf(value) for value in values]
        x = keras.tree.map_structure(lambda t: _leaf(t) if t.is_floating_point() else t, x)
        inputs = [t for t in keras.tree.flatten(x) if t.requires_grad]
        with torch.enable_grad():
            loss = compute(values, x)
        if not loss.requires_grad:
            return loss, [None] * len(values)
        found = torch.autograd.grad(loss, [*values, *inputs], allow_unused=True)
        return loss, list(found[: len(values)])

    def run(self, step: Callable[[], dict[str, Any]], compiled: bool) -> dict[str, Any]:
        return {name: tensor.detach() for name, tensor in step().items()}

    @contextmanager
    def guarded(self, model: Any) -> Iterator[None]:
        # Keras draws dropout from torch's random state; a torch module inside the
        # model has buffers of its own and a flag for training.
        devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
        buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
        training = [(module, module.training) for module in model.modules()]
        with torch.random.fork_rng(devices=devices):
            try:
                yield
            finally:
                with torch.no_grad():
                    for buffer, before in buffers:
                        buffer.copy_(before)
                for module, flag in training:
                    if module.training is not flag:
                        vars(module)["training"] = flag


def _leaf(tensor: Any) -> Any:
    return tensor.detach().clone().requires_grad_()
