"""Which submodules the first training step calls: others are spare parts."""

from collections.abc import Sequence
from typing import Any

import torch

from gradwatch.capture.torch import module_calls
from gradwatch.capture.torch.module_paths import compiled_paths, modules_of
from gradwatch.capture.variable_names import unwrapped
from gradwatch.compat.torch_names import saved_tensors_hooks_are_on
from gradwatch.util import Reporter


class CalledModules:
    """Notes the calls of submodules until it is asked; also those that compute no gradients."""

    def __init__(self, module: Any, reporter: Reporter) -> None:
        # Calls of what is compiled are not seen.
        self._modules = {} if compiled_paths(module) else dict(modules_of(unwrapped(module)))
        self._called: set[str] = set()
        self._time_first: dict[str, tuple[int, int]] = {}
        """Of modules that take the first axis for time: the sizes of the first two."""
        self.are_tensors_kept = bool(self._modules)
        """Whether graphs keep their tensors: under checkpointing, they compute them again."""
        self.end = module_calls.listen(self._modules, self._note, reporter)

    def _note(self, path: str, args: Any, outputs: Any) -> None:
        self._called.add(path)
        x: Any = args[0] if isinstance(args, tuple) and args else None
        is_time_first = getattr(self._modules[path], "batch_first", None) is False
        if is_time_first and isinstance(x, torch.Tensor) and x.ndim == 3:
            self._time_first[path] = int(x.shape[0]), int(x.shape[1])
        self.are_tensors_kept &= not saved_tensors_hooks_are_on()

    def uncalled(self) -> Sequence[str]:
        """The paths of submodules with parameters of their own that were not called so far."""
        self.end()
        holders = [path for path, each in self._modules.items() if each._parameters]
        return [path for path in holders if self._is_spare(path)]

    def mixing(self, samples: int) -> Sequence[str]:
        """The paths of modules that take the samples of a batch for the steps of a sequence."""
        sizes = self._time_first.items()
        return [path for path, (time, batch) in sizes if time == samples != batch]

    def _is_spare(self, path: str) -> bool:
        if path in self._called:
            return False
        parent = path.rpartition("/")[0]
        if parent in self._modules and parent not in self._called:
            return self._is_spare(parent)
        has_called = any(each.startswith(f"{parent}/" * bool(parent)) for each in self._called)
        if not parent or parent in self._modules:
            # What calls none of its submodules computes with their parameters by itself.
            return has_called
        # Of a list, such as experts or heads, some may be called by other steps.
        return not has_called
