"""Sealing: turning finished journals into segments, in the background."""

import errno
import os
import shutil
import sys
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gradwatch.store import file_names as names
from gradwatch.store import manifest, process, segments
from gradwatch.store.journal import Journal
from gradwatch.store.segments import Interrupted, Stopper
from gradwatch.util import Background, exits, leaving
from gradwatch.util.files import DamagedError

RETRY, RETRY_AT_MOST = 30.0, 600.0
GRACE = 0.3
"""Seconds that an interrupted sealing gets to stop."""
GRACE_IN_DATABASE = 5.0


@dataclass(frozen=True)
class SealListener:
    """Waits for the segments of a run while it is recorded.

    A journal is sealed after `every` seconds even if it is not full. `on_sealed` is called on the
    sealing thread, after each journal that was sealed.
    """

    every: float
    on_sealed: Callable[[], object]


listeners: dict[Path, SealListener] = {}
"""By the absolute path of a run's directory; at most one each."""


def seal(path: Path, frames: int | None = None, stopper: Stopper | None = None) -> bool:
    """Replace a finished journal by segments; False if it or its manifest is damaged.

    Whatever happens on the way, each of its rows is in the run exactly once: until
    the manifest names the segments the journal counts, and from then on they do.

    What is damaged is left as it is. `frames` is how many frames the journal must have, where that
    is known. After an `OSError`, try it again later; the stopper makes it raise `Interrupted`.
    """
    journal = Journal(path)
    journal.advance()
    is_short = frames is not None and journal.frame_count != frames
    if journal.damage or is_short or not journal.writer:
        return False
    directory = path.parent
    if shutil.disk_usage(directory).free < path.stat().st_size:
        # The last of the space is for what training measures next.
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    try:
        so_far = manifest.so_far(directory, journal)
        entry = segments.write(journal, directory, stopper)
        manifest.add(directory, journal, entry, so_far)
    except DamagedError:
        return False
    path.unlink()
    return True


class Sealer:
    """Seals journals on one background thread for all runs.

    A process that was forked from one that has sealed does not seal: the database may have
    been running at the fork, and would never finish. Its journals stay journals.
    """

    def __init__(self) -> None:
        self._process: int | None = None
        self._background = Background("gradwatch-seal")
        self._stopper = Stopper()

    def submit(self, path: Path, frames: int, delay: float = 0.0, retry: float = RETRY) -> None:
        """Seal a journal; try again later if that fails, for example on a full disk."""
        self.later(path, delay, partial(self._seal, path, frames, retry))

    def later(self, key: Hashable, delay: float, call: Callable[[], object]) -> None:
        """Call something else on the same thread."""
        if self._process is None:
            self._process = os.getpid()
        if self._process == os.getpid():
            self._background.later(key, delay, call)

    def finish(self, deadline: float) -> bool:
        """Seal the waiting journals now; those that are not done by the deadline stay journals."""
        if self._background.finish(deadline - GRACE):
            return True
        self.give_up()
        return False

    def give_up(self) -> None:
        """Stop, also in the middle of a sealing; the journals stay."""
        self._background.stop()
        self._stopper.stop()
        is_done = self._background.finish(time.monotonic() + GRACE)
        if not is_done and self._stopper.is_in_database and not leaving.skip_destructors():
            # When the interpreter ends while a thread is in the database, the process is
            # aborted. So here, on a machine that is very busy, it is worth to wait.
            self._background.finish(time.monotonic() + GRACE_IN_DATABASE)

    def _seal(self, path: Path, frames: int, retry: float) -> None:
        try:
            is_sealed = seal(path, frames, self._stopper)
            listener = listeners.get(path.parent.absolute())
            if is_sealed and listener is not None:
                listener.on_sealed()
        except (FileNotFoundError, Interrupted):
            pass  # Deleted meanwhile, or left for later.
        except OSError:
            self.submit(path, frames, retry, min(2 * retry, RETRY_AT_MOST))


sealer = Sealer()
syncer = Background("gradwatch-sync")


def seal_abandoned(directory: Path, is_meant: Callable[[str], bool] = lambda name: True) -> None:
    """Seal the journals of dead processes in the background, in a run that goes on.

    Damaged or torn journals are left to `repair`, which moves them to its quarantine. No other
    process may be writing to the directory. `is_meant` says, of a journal's name, whether to seal
    it.
    """
    for name in list(names.listed(directory)):
        if names.parse_journal(name) is not None and is_meant(name):
            path = directory / name
            sealer.later((path, "abandoned"), 0.0, partial(_seal_if_abandoned, path))


def _seal_if_abandoned(path: Path) -> None:
    journal = Journal(path)
    try:
        journal.advance()
    except FileNotFoundError:
        return
    # This also passes over the journals of this process, which runs.
    is_running = process.is_running(journal.writer)
    if journal.frame_count and not (is_running or journal.torn or journal.damage):
        sealer.submit(path, journal.frame_count)


def _at_exit(deadline: float) -> None:
    syncer.finish(deadline)
    if getattr(sys, "last_type", None) is KeyboardInterrupt:
        # Nobody who has pressed Ctrl-C wants to wait. And what Python imports now, such
        # as the database, would make it forget to end as one that was interrupted.
        sealer.give_up()
    else:
        sealer.finish(deadline)


# After the sinks: their closing is what leaves something to seal.
exits.register(1, _at_exit)
