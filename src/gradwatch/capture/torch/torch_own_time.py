"""The time that a rank of a torch training works in a step before it first waits for others.

Ranks that train together all take as long as the slowest, because the others wait. So the time of
a step does not show which rank is slow. The time before the first collective does: loading the
batch, and the forward pass up to there.
"""

import time
from collections.abc import Callable
from typing import Any

import torch

from gradwatch.core import TorchModule

clock: Callable[[], float] = time.perf_counter


class OwnTime:
    """Measures the time from the end of a step to where the next one first waits for other ranks.

    That is the end of the forward pass, or its beginning if it has collectives. With several passes
    under `no_sync()`, it is the end of the last. It is the time of the host: pending work of a GPU
    is not included.

    It holds only numbers, and does nothing where a step is compiled: a module with its hooks can be
    copied, pickled and compiled like one without.
    """

    def __init__(self, meets_in_forward: bool) -> None:
        self._meets_in_forward = meets_in_forward
        self._since: float | None = None
        self._until: float | None = None
        self._has_met = False
        self._seconds, self._steps = 0.0, 0

    def forward_begins(self, module: Any, args: Any) -> None:
        """A hook: the module is called."""
        if self._meets_in_forward and self._is_looking():
            self._until, self._has_met = clock(), True

    def forward_ended(self, module: Any, args: Any, output: Any) -> None:
        """A hook: the module has returned."""
        if not self._meets_in_forward and self._is_looking():
            self._until = clock()
            self._has_met = bool(getattr(module, "require_backward_grad_sync", True))

    def step_begins(self) -> None:
        """`optimizer.step()` begins: the ranks have met."""
        if self._since is not None and self._until is not None:
            self._seconds += self._until - self._since
            self._steps += 1
        self._since = self._until = None

    def step_ended(self) -> None:
        """It has ended, and so has its measurement."""
        self._since, self._until, self._has_met = clock(), None, False

    def take(self) -> float | None:
        """The mean over the steps since the last call; None if there are none."""
        mean = self._seconds / self._steps if self._steps else None
        self._seconds, self._steps = 0.0, 0
        return mean

    def _is_looking(self) -> bool:
        # Tested first, so that a compiled step contains nothing of this. Passes without gradients
        # are evaluations.
        if torch.compiler.is_compiling():
            return False
        return self._since is not None and not self._has_met and torch.is_grad_enabled()


def own_time_of(parallel: TorchModule | None) -> OwnTime:
    """For a DistributedDataParallel, or None for a sharded module.

    Its forward pass has collectives if there are buffers, which are broadcast at its beginning,
    or normalisations over all ranks. That of a sharded module always has.
    """
    if parallel is None:
        return OwnTime(meets_in_forward=True)
    has_buffers = any(True for _ in parallel.module.buffers())
    return OwnTime(
        meets_in_forward=(has_buffers and bool(parallel.broadcast_buffers))
        or any(isinstance(each, torch.nn.SyncBatchNorm) for each in parallel.module.modules())
    )
