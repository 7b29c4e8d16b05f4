"""The run's directory: its lock, and its description in `run.json`."""

from __future__ import annotations

import itertools
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gradwatch.core import Site, SiteInfo
from gradwatch.parallel import Rank, training
from gradwatch.record.continuation import ASKED_FOR, Beginning, asked_for, holds_rows, numbered
from gradwatch.record.directory_lock import DirectoryLock
from gradwatch.store import DESCRIPTION, Description
from gradwatch.util import Background, Reporter, exits

PATIENCE = 0.5
_held: dict[Path, RunDirectory] = {}
_background = Background("gradwatch-run")
exits.register(1, _background.finish)


class RunDirectory:
    """A directory that only one live training writes to, and that holds one run.

    A second process, or thread, that asks for the same one gets another next to it: `runs/a-2`; so
    does a training that does not continue the run which is there, see `Beginning`. One that
    continues it takes the directory over from a monitor on the same thread, or on one that has
    ended: that training must have ended, too, perhaps by an exception. `on_lost` of the first is
    then called. Without a `beginning`, it continues any run. Of several runs to continue it takes
    `latest` or, failing that, the one with the highest number.

    Processes that train together share one, under the name `training`, see `ranks.training`. Only
    the first of them describes the run: for the others, and in a forked child, `describe`, `amend`
    and `tell_sites` do nothing.

    `obstacle` says in words why the run is not in the directory that was asked for; it is empty
    if it is. `left` is that directory if the run in it has ended, and is not continued. OSError is
    raised if the directory cannot be created or written to.
    """

    def __init__(
        self,
        path: Path,
        on_lost: Callable[[], None],
        rank: Rank | None = None,
        beginning: Beginning | None = None,
        latest: Path | None = None,
    ) -> None:
        self._on_lost = on_lost
        self._rank = rank or Rank()
        self._beginning = beginning
        self._thread = _this_thread()
        self._process = os.getpid()
        self.training = training(self._rank)
        self.obstacle = ""
        self.left: Path | None = None
        obstacles: dict[Path, str] = {}
        for candidate, continues in self._candidates(path, latest):
            self.path, self._key = candidate, candidate.absolute()
            if self._claim(path, must_continue=continues):
                break
            obstacles.setdefault(self.path, self.obstacle)
        self.obstacle = "" if self.path == path else obstacles.get(path, "")
        self._description = Description(self.path)
        self._sites: list[Site] = []
        if self.path != path:
            self.amend(ASKED_FOR, path.name)

    def _candidates(self, wished: Path, latest: Path | None) -> Iterator[tuple[Path, bool]]:
        """Directories to try, and whether to take them only to continue a run."""
        if self._beginning is not None and self._beginning.first_step > 1:
            for path in dict.fromkeys([*([latest] if latest else []), *numbered(wished), wished]):
                if (path / DESCRIPTION).exists() or (path / ".lock").exists():
                    yield path, True
        yield wished, False
        for n in itertools.count(2):
            yield wished.with_name(f"{wished.name}-{n}"), False

    def _claim(self, wished: Path, must_continue: bool) -> bool:
        self.path.mkdir(parents=True, exist_ok=True)
        self.obstacle = "is being written by another process"
        holder = _held.get(self._key)
        if holder is not None and not self._take_over(holder):
            return False
        try:
            lock = DirectoryLock(self.path, self.training)
        except OSError:
            # Once more: a hiccup of a network, or a clean-up at that moment, must not cost the
            # whole record.
            self.path.mkdir(parents=True, exist_ok=True)
            lock = DirectoryLock(self.path, self.training)

        def is_wanted() -> bool:
            self.obstacle = ""
            # Another rank may have ended before this one begins.
            if self._beginning is not None and not lock.was_of_this_training:
                self.obstacle = self._beginning.obstacle(self.path)
            is_free = not self.obstacle
            if self.path == wished and not is_free:
                self.left = wished
            if must_continue:
                is_ours = self.path == wished or asked_for(self.path) == wished.name
                return is_free and is_ours and holds_rows(self.path)
            return is_free

        if not lock.take(is_wanted):
            return False
        self._lock = lock
        _held[self._key] = self
        return True

    def _take_over(self, holder: RunDirectory) -> bool:
        """Take the directory from another monitor of this process, if that is over."""
        thread = holder._thread()
        if thread is not None and thread is not self._thread():
            self.obstacle = "is being written on another thread"
            return False
        if self._beginning is not None:
            _background.finish(time.monotonic() + PATIENCE)
            obstacle = self._beginning.obstacle(self.path, has_rows=True)
            if obstacle:
                self.obstacle = obstacle
                return False
        holder._on_lost()
        holder.release()
        return True

    def release(self) -> None:
        """Release the lock, after `run.json` is written, if that does not take long."""
        if _held.get(self._key) is self:
            _background.finish(time.monotonic() + PATIENCE)
            _held.pop(self._key, None)
            self._lock.release()

    def describe(self, facts: Mapping[str, Any]) -> None:
        """Add an entry to `run.json`, the list of all fits that this run consists of.

        It is written in the background, a moment later: training does not wait for it.
        """
        if not self._describes:
            return
        self._description.begin(facts)
        self._description.amend("ended", None)
        self._write_soon()

    def amend(self, key: str, value: Any) -> None:
        """Enter a fact of the run as a whole into `run.json`, in the background."""
        if not self._describes:
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
    def _describes(self) -> bool:
        return self._rank.is_first and self._process == os.getpid()

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
    beginning: Beginning | None = None,
    latest: Path | None = None,
) -> RunDirectory | None:
    """Claim the directory of a run, or one next to it; None if it cannot be written to.

    `is_displaced` says that another monitor has taken it from the one that asks: two monitors of
    one loop must not take it from each other by turns. `latest` is the one that it had last.
    """
    place = wished
    if is_displaced:
        place, latest = wished.with_name(f"{wished.name}-2"), None
    try:
        run = RunDirectory(place, on_lost, rank, beginning, latest)
    except OSError as error:
        reporter.show(f"Cannot write to {wished}, so nothing is recorded there. {error}")
        return None
    if run.path not in (wished, latest):
        why = "is being written by another monitor" if is_displaced else run.obstacle
        if why:
            reporter.notice(f"{wished} {why}. Writing to {run.path}.")
        else:
            reporter.notice(f"The training continues the run in {run.path}.")
    return run


class _Thread(threading.local):
    """Each thread's own token, which ends with the thread."""

    def __init__(self) -> None:
        self.token = type("Token", (), {})()


_threads = _Thread()


def _this_thread() -> weakref.ref[Any]:
    return weakref.ref(_threads.token)


if hasattr(os, "register_at_fork"):
    # A child does not hold what its parent holds.
    os.register_at_fork(after_in_child=_held.clear)
