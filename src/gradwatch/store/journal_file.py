"""A journal that is being written."""

from collections.abc import Sequence
from pathlib import Path

from gradwatch.store import frames
from gradwatch.store.records import Record
from gradwatch.util.files import AppendFile


class JournalFile:
    """Numbers records as frames and appends them; those of one call wholly or not at all.

    The file must not be there yet. `is_synced` is whether all frames would survive a loss of power.
    """

    def __init__(self, path: Path, number: int) -> None:
        # Not remade once deleted: a journal without its first frames is of no use.
        self._file = AppendFile(path, exclusive=True, remake=False)
        self.path = path
        self.number = number
        self.frames = self.bytes = 0
        self.is_synced = True

    def append(self, records: Sequence[Record]) -> None:
        """Append records; on `OSError` the journal is as it was, on `FileNotFoundError` deleted."""
        data = b"".join(
            frames.encode(kind, number, payload)
            for number, (kind, payload) in enumerate(records, self.frames)
        )
        self._file.append(data)
        self.frames += len(records)
        self.bytes += len(data)
        self.is_synced = False

    def sync(self) -> None:
        """Have all frames survive a loss of power; may take long."""
        self.is_synced = True
        self._file.sync()

    def close(self) -> None:
        """Close the file; delete it if nothing was written to it."""
        self._file.close()
        if self.frames == 0:
            self.path.unlink(missing_ok=True)
