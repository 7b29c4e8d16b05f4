"""A connection between the ranks of a torch training, separate from that of the training."""

import time
from collections.abc import Callable
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from gradwatch.util import Reporter

Array = NDArray[np.float64]

NOTICE_AFTER = 60.0
"""Seconds of waiting for the others after which there is a notice."""
_TIMEOUT = timedelta(days=7)


class TorchRanks:
    """A `RankLink`: all-reduces over gloo in a separate group, whatever the training itself uses.

    The group is not in torch's list of groups: those of the training keep their names and their
    order. It only needs the key-value store of the training, to which it has a separate connection,
    so that the training never waits for a lock.

    Meetings are numbered. A meeting that a rank leaves before all have joined is void, and the
    others go on to the next: ranks need not have watched equally often before. The fingerprint says
    what is measured; it must be the same on all ranks.
    """

    _next_number = 0

    def __init__(self, group: str, fingerprint: str) -> None:
        self.index, self.count = dist.get_rank(), dist.get_world_size()
        self._meeting = f"gradwatch/meeting of {group}"
        self._fingerprint = fingerprint
        self._take(TorchRanks._next_number)
        # Now, while the store of the training certainly exists.
        self._store = dist.distributed_c10d._get_default_store().clone()
        self._group: dist.ProcessGroupGloo | None = None

    def connect(self, is_over: Callable[[], bool], reporter: Reporter) -> str | None:
        began, was_noticed = time.monotonic(), False
        while not self._have_all_joined():
            if is_over():
                self._store.set(f"{self._key}/left", str(self.index))
                return ""
            if self._store.check([f"{self._key}/left"]):
                self._take(self._number + 1)
            elif not was_noticed and time.monotonic() - began > NOTICE_AFTER:
                was_noticed = True
                reporter.notice(self._missing())
            time.sleep(min(1.0, 0.01 + 0.1 * (time.monotonic() - began)))
        return self._join()

    def _take(self, number: int) -> None:
        """Go to the meeting of that number."""
        self._number, self._key = number, f"{self._meeting}/{number}"
        TorchRanks._next_number = max(TorchRanks._next_number, number + 1)
        self._is_entered = False

    def _have_all_joined(self) -> bool:
        if not self._is_entered:
            self._store.set(self._name(self.index), self._fingerprint)
            self._is_entered = True
        is_left = self._store.check([f"{self._key}/left"])
        return not is_left and self._store.check([self._name(r) for r in range(self.count)])

    def _missing(self) -> str:
        missing = [str(r) for r in range(self.count) if not self._store.check([self._name(r)])]
        return (
            f"Of this training of {self.count} processes, these do not watch the module: rank "
            f"{', '.join(missing[:8])}. Nothing is recorded of sharded parameters until all do: "
            "call gradwatch.watch() on every rank."
        )

    def _name(self, rank: int) -> str:
        return f"{self._key}/of {rank}"

    def _join(self) -> str | None:
        """All have joined: check that they measure the same, and connect to them."""
        store, key = self._store, self._key
        if store.get(self._name(0)).decode() != self._fingerprint:
            store.set(f"{key}/differs", str(self.index))
        store.add(f"{key}/compared", 1)
        while store.add(f"{key}/compared", 0) < self.count:
            time.sleep(0.01)
        if store.check([f"{key}/differs"]):
            other = store.get(f"{key}/differs").decode()
            return (
                f"Rank {other} watches something else than rank 0, or at other steps, so sharded "
                "parameters are not recorded. Give watch() the same arguments on every rank."
            )
        gloo = dist.PrefixStore(f"{key}/gloo", store)
        self._group = dist.ProcessGroupGloo(gloo, self.index, self.count, _TIMEOUT)
        return None

    def add(self, numbers: Array) -> Array:
        return self._reduced(numbers, dist.ReduceOp.SUM)

    def highest(self, numbers: Array) -> Array:
        return self._reduced(numbers, dist.ReduceOp.MAX)

    def _reduced(self, numbers: Array, how: dist.ReduceOp) -> Array:
        assert self._group is not None
        tensor = torch.from_numpy(np.ascontiguousarray(numbers, np.float64))
        self._group.allreduce([tensor], how).wait()
        reduced: Array = tensor.numpy()
        return reduced
