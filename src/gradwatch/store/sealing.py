"""Turning finished journals into segments, in the background."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import time
from collections.abc import Callable, Hashable
from functools import partial
from pathlib import Path

from gradwatch.store import followers, manifest, segments
from gradwatch.store.journal import Journal
from gradwatch.store.segments import Interrupted, Stopper
from gradwatch.util import Background, exits
from gradwatch.util.files import DamagedError

RETRY, RETRY_AT_MOST = 30.0, 600.0
GRACE = 0.3
"""Seconds that an interrupted sealing gets to stop."""
GRACE_IN_DATABASE = 5.0


def seal(path: Path, frames: int | None = None, stopper: Stopper | None = None) -> bool:
    """Put segments in the place of a journal that nobody writes to any more.

    Whatever happens on the way, each of its rows is in the run exactly once: until
    the manifest names the segments the journal counts, and from then on they do.

    Args:
        path: the journal.
        frames: how many frames it must have, where that is known.
        stopper: stops it from another thread.

    Returns:
        False if the journal or its writer's manifest is damaged; both are left as
        they are.

    Raises:
        OSError: something cannot be read or written; try it again later.
        Interrupted: the stopper said so.
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
    """Seals journals on one background thread, however many runs there are.

    A process that was forked from one that has sealed does not: the database may have
    been at work at that moment, and would never come to rest. Its journals stay journals.
    """

    def __init__(self) -> None:
        self._process: int | None = None
        self._background = Background("gradwatch-seal")
        self._stopper = Stopper()

    def submit(self, path: Path, frames: int, delay: float = 0.0, retry: float = RETRY) -> None:
        """Have a journal sealed; tried again as long as the disk is full, say."""
        self.later(path, delay, partial(self._seal, path, frames, retry))

    def later(self, key: Hashable, delay: float, call: Callable[[], object]) -> None:
        """Have something else called on the same thread."""
        if self._process is None:
            self._process = os.getpid()
        if self._process == os.getpid():
            self._background.later(key, delay, call)

    def finish(self, deadline: float) -> bool:
        """Seal now what waits; what is not done by the deadline stays a journal."""
        if self._background.finish(deadline - GRACE):
            return True
        self.give_up()
        return False

    def give_up(self) -> None:
        """Stop, also what is under way; the journals stay."""
        self._background.stop()
        self._stopper.stop()
        is_done = self._background.finish(time.monotonic() + GRACE)
        if not is_done and self._stopper.is_in_database:
            # When the interpreter ends while a thread is in the database, the process is
            # aborted. So here, on a machine that is very busy, it is worth to wait.
            self._background.finish(time.monotonic() + GRACE_IN_DATABASE)

    def _seal(self, path: Path, frames: int, retry: float) -> None:
        try:
            is_sealed = seal(path, frames, self._stopper)
            follower = followers.of(path.parent)
            if is_sealed and follower is not None:
                follower.on_sealed()
        except (FileNotFoundError, Interrupted):
            pass  # Deleted meanwhile, or left for later.
        except OSError:
            self.submit(path, frames, retry, min(2 * retry, RETRY_AT_MOST))


sealer = Sealer()
syncer = Background("gradwatch-sync")


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
