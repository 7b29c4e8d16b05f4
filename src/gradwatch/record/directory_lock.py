"""The lock of a run's directory, which one live process, or training of processes, holds."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: runs are then not kept apart.
    fcntl = None  # type: ignore[assignment]

PAUSE, LATER, AT_LAST = 0.01, 0.2, 5.0
"""Seconds. A rank checks repeatedly, in pauses of the first, which training holds a locked
directory: up to the second if it names another training, up to the third if it names none."""
ALONE = b"a process on its own"
_open: set[int] = set()
"""The files of all locks of this process."""


class DirectoryLock:
    """The lock of a directory; `training` is a name that the processes share that may hold it.

    A forked child does not hold it: its copy of the file is closed. What the operating system's
    `fork` gives to children without Python's knowledge is released with the lock, explicitly.

    Making one raises OSError if the directory cannot be written to.
    """

    def __init__(self, directory: Path, training: str = "") -> None:
        self._training = training
        path = directory / ".lock"
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        _open.add(self._file)
        self._process = os.getpid()

    @property
    def was_of_this_training(self) -> bool:
        """Whether a process of the same training was the last to hold it."""
        ours = self._training.encode()
        return bool(ours) and os.pread(self._file, len(ours) + 1, 0) == ours

    def take(self, is_wanted: Callable[[], bool] = lambda: True) -> bool:
        """Take the lock, or share it with processes of the same training; False if it is held.

        `is_wanted` is asked while the lock is held, unless another process of the training holds
        it, too. If it is not, the result is False as well.
        """
        try:
            is_taken = is_wanted() if fcntl is None else self._take(is_wanted)
        except OSError:  # A file system without locks: as on Windows.
            is_taken = is_wanted()
        except BaseException:
            self.release()
            raise
        if not is_taken:
            self.release()
        return is_taken

    def release(self) -> None:
        if self._process == os.getpid() and self._file in _open:
            _open.discard(self._file)
            with suppress(OSError):
                if fcntl is not None:
                    # Closing is not enough while a child has the file open.
                    fcntl.flock(self._file, fcntl.LOCK_UN)
            os.close(self._file)

    def _take(self, is_wanted: Callable[[], bool]) -> bool:
        ours = self._training.encode() or ALONE
        begun = time.monotonic()
        while True:
            is_signed = True
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not is_wanted():
                    return False
                is_signed = self._sign(ours)
                if not self._training:
                    return True
            except BlockingIOError:
                if not self._training:
                    return False
                theirs = os.pread(self._file, len(ours) + 1, 0)
                if theirs != ours:
                    # The holder may be of this training, and about to write its name.
                    if time.monotonic() - begun > (LATER if theirs else AT_LAST):
                        return False
                    time.sleep(PAUSE)
                    continue
            try:
                fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                # For a moment it was free: a process that took it then has signed it anew.
                if not is_signed or os.pread(self._file, len(ours) + 1, 0) == ours:
                    return True
                fcntl.flock(self._file, fcntl.LOCK_UN)
            except BlockingIOError:
                pass
            time.sleep(PAUSE)  # Another process was faster.

    def _sign(self, name: bytes) -> bool:
        """Write the holder into the lock; without space for that, it cannot be shared."""
        with suppress(OSError):
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, name, 0)
            return True
        return False


def _close_in_child() -> None:
    for file in _open:
        with suppress(OSError):
            os.close(file)
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
