"""The run's directory: its lock, and its description in `run.json`."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gradwatch.core import Site, SiteInfo
from gradwatch.parallel import Rank, training
from gradwatch.store import Description
from gradwatch.util import Background, Reporter, exits

try:
    import fcntl
except ImportError:  # Windows: runs are then not kept apart.
    fcntl = None  # type: ignore[assignment]

PATIENCE = 0.5
PAUSE, LATER, AT_LAST = 0.01, 0.2, 5.0
"""Seconds. A rank checks repeatedly, in pauses of the first, which training holds a locked
directory: up to the second if it names another training, up to the third if it names none."""
ALONE = b"a process on its own"
_held: dict[Path, RunDirectory] = {}
_background = Background("gradwatch-run")
exits.register(1, _background.finish)


class RunDirectory:
    """A directory that only one live training writes to.

    A second process, or thread, that asks for the same one gets another next to it: `runs/a-2`. A
    second monitor on the same thread takes it over from the first, whose training must have ended,
    perhaps by an exception; `on_lost` of the first is then called. Processes that train together
    share one, under the name `training`, see `ranks.training`. Only the first of them describes the
    run: for the others, `describe`, `amend` and `tell_sites` do nothing.

    It raises OSError if the directory cannot be created or written to.
    """

    def __init__(self, path: Path, on_lost: Callable[[], None], rank: Rank | None = None) -> None:
        self._on_lost = on_lost
        self._rank = rank or Rank()
        self.training = training(self._rank)
        self._thread = threading.get_ident()
        for n in itertools.count(1):
            self.path = path if n == 1 else path.with_name(f"{path.name}-{n}")
            self._key = self.path.absolute()
            if self._claim():
                self._description = Description(self.path)
                self._sites: list[Site] = []
                return

    def _claim(self) -> bool:
        self.path.mkdir(parents=True, exist_ok=True)
        holder = _held.get(self._key)
        if holder is not None and holder._thread == self._thread:
            holder._on_lost()
            holder.release()
        try:
            self._lock = self._open_lock()
        except OSError:
            # Once more: a hiccup of a network, or a clean-up at that moment, must not cost the
            # whole record.
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = self._open_lock()
        try:
            is_free = fcntl is None or self._take_lock()
        except OSError:
            is_free = True  # A file system without locks: as on Windows.
        except BaseException:
            os.close(self._lock)
            raise
        if not is_free:
            os.close(self._lock)
            return False
        _held[self._key] = self
        return True

    def _take_lock(self) -> bool:
        """Take the lock, or share it with processes of the same training; False if it is held."""
        ours = self.training.encode() or ALONE
        begun = time.monotonic()
        while True:
            is_signed = True
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_signed = self._sign(ours)
                if not self.training:
                    return True
            except BlockingIOError:
                if not self.training:
                    return False
                theirs = os.pread(self._lock, len(ours) + 1, 0)
                if theirs != ours:
                    # The holder may be of this training, and about to write its name.
                    if time.monotonic() - begun > (LATER if theirs else AT_LAST):
                        return False
                    time.sleep(PAUSE)
                    continue
            try:
                fcntl.flock(self._lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                # For a moment it was free: a process that took it then has signed it anew.
                if not is_signed or os.pread(self._lock, len(ours) + 1, 0) == ours:
                    return True
                fcntl.flock(self._lock, fcntl.LOCK_UN)
            except BlockingIOError:
                pass
            time.sleep(PAUSE)  # Another process was faster.

    def _sign(self, name: bytes) -> bool:
        """Write the holder into the lock; without space for that, it cannot be shared."""
        with suppress(OSError):
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, name, 0)
            return True
        return False

    def _open_lock(self) -> int:
        return os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def release(self) -> None:
        """Release the lock, after `run.json` is written, if that does not take long."""
        if _held.get(self._key) is self:
            _background.finish(time.monotonic() + PATIENCE)
            del _held[self._key]
            os.close(self._lock)

    def describe(self, facts: Mapping[str, Any]) -> None:
        """Add an entry to `run.json`, the list of all fits that this run consists of.

        It is written in the background, a moment later: training does not wait for it.
        """
        if not self._rank.is_first:
            return
        self._description.begin(facts)
        self._description.amend("ended", None)
        self._write_soon()

    def amend(self, key: str, value: Any) -> None:
        """Enter a fact of the run as a whole into `run.json`, in the background."""
        if not self._rank.is_first:
            return
        self._description.amend(key, value)
        self._write_soon()

    def tell_sites(self, infos: Sequence[SiteInfo]) -> None:
        """Enter the facts known about the sites into `run.json`, unless they are there already."""
        sites = [info.site for info in infos]
        if infos and sites != self._sites:
            self._sites = sites
            self.amend(
                "sites",
                [
                    {
                        "kind": str(info.kind),
                        "path": info.path,
                        "shape": [None if size is None else int(size) for size in info.shape],
                        "dtype": str(info.dtype),
                        "part": str(info.part),
                        "trainable": bool(info.trainable),
                    }
                    for info in infos
                ],
            )

    @property
    def has_sites(self) -> bool:
        return bool(self._sites)

    def _write_soon(self) -> None:
        # Changes within this time are written together.
        _background.later(self._key, 0.1, self._description.write)


def claim_directory(
    wished: Path,
    is_displaced: bool,
    on_lost: Callable[[], None],
    rank: Rank,
    reporter: Reporter,
) -> RunDirectory | None:
    """Claim the directory of a run, or one next to it; None if it cannot be written to.

    `is_displaced` says that another monitor has taken it from the one that asks: two monitors of
    one loop must not take it from each other by turns.
    """
    try:
        run = RunDirectory(
            wished.with_name(f"{wished.name}-2") if is_displaced else wished, on_lost, rank
        )
    except OSError as error:
        reporter.show(f"Cannot write to {wished}, so nothing is recorded there. {error}")
        return None
    if run.path != wished:
        who = "monitor" if is_displaced else "process"
        reporter.show(f"{wished} is being written by another {who}. Writing to {run.path}.")
    return run
