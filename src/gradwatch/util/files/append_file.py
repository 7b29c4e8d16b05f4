"""A file that only grows, by whole records."""

import errno
import os
from contextlib import suppress
from pathlib import Path

from gradwatch.util.files import regular


class AppendFile:
    """A file to which records are appended, each wholly or not at all.

    There is no buffer in this process: what `append` returned from is with the
    operating system, so a kill loses none of it and a forked child cannot write
    it a second time. Only a crash of the machine itself can, unless `sync` was called.

    If the file or its directory is deleted meanwhile, the next `append` makes
    both anew at the same path, beginning with `header`, and counts that in
    `recreated`; an owner that would rather start elsewhere asks `lost` first. Without
    `remake`, `append` then raises `FileNotFoundError`.

    Missing directories are made. `exclusive` refuses a file that is already there. The header is
    written together with the first record, so it never stands alone or half.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        exclusive: bool = False,
        *,
        header: bytes = b"",
        remake: bool = True,
    ) -> None:
        self.path = Path(path)
        self.recreated = 0
        self._header = header
        self._remake = remake
        self._torn: tuple[int, int] | None = None
        self._descriptor: int | None = self._open(exclusive)

    @property
    def lost(self) -> bool:
        """Whether the file has been deleted since it was opened."""
        if self._descriptor is None:
            return False
        # Inode numbers are not compared: some network file systems make them up.
        return os.fstat(self._descriptor).st_nlink == 0 or not self.path.exists()

    def append(self, data: bytes) -> None:
        """Write all of `data` at the end, or nothing.

        After an `OSError` (a full disk, say) the file is as before, and a later call may succeed.
        """
        if self.lost:
            if not self._remake:
                raise FileNotFoundError(errno.ENOENT, "deleted meanwhile", str(self.path))
            self._recreate()
        if self._descriptor is None:
            raise ValueError(f"append() on a closed file. Received: path={str(self.path)!r}")
        self._mend(self._descriptor)
        start = os.fstat(self._descriptor).st_size
        rest = memoryview(data if start else self._header + data)
        end = start
        try:
            while rest:
                written = os.write(self._descriptor, rest)
                if written == 0:
                    raise OSError(errno.EIO, os.strerror(errno.EIO), str(self.path))
                end += written
                rest = rest[written:]
        except BaseException:
            if end > start:
                self._torn = (start, end)
                with suppress(OSError):
                    self._mend(self._descriptor)
            raise

    def sync(self) -> None:
        """Have all that was appended so far survive a loss of power, too.

        May take long; other threads may append meanwhile, but not close.
        """
        if self._descriptor is not None:
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Let go of the file; a second call does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _mend(self, descriptor: int) -> None:
        """Cut off what a failed write left, at once or before the next write."""
        if self._torn is None:
            return
        start, end = self._torn
        # Only while it is the end of the file: never cut what another wrote.
        if os.fstat(descriptor).st_size == end:
            os.ftruncate(descriptor, start)
        self._torn = None

    def _recreate(self) -> None:
        # Opened before the old one is let go: when this fails, it is tried again.
        fresh = self._open(exclusive=False)
        self.close()
        self._descriptor, self._torn = fresh, None
        self.recreated += 1

    def _open(self, exclusive: bool) -> int:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        flags |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        # To open a pipe would wait for a reader.
        flags |= getattr(os, "O_NONBLOCK", 0)
        descriptor = os.open(self.path, flags | (os.O_EXCL if exclusive else 0), 0o666)
        try:
            regular.check(os.fstat(descriptor).st_mode, self.path)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor
