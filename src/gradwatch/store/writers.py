"""The writers of this process: a run that is opened again goes on with the one it had."""

from pathlib import Path

from gradwatch.store import file_names as names
from gradwatch.store.writer import StoreWriter

REMEMBERED = 64

_writers: dict[tuple[Path, int], StoreWriter] = {}


def writer_for(directory: Path, first_step: int, rank: int = 0) -> StoreWriter:
    """A writer for a run; call its `close` when the run ends.

    A thousand calls of `fit` in one run are thereby one writer with few files, not a
    thousand.
    """
    key = (Path(directory).absolute(), rank)
    writer = _writers.pop(key, None)
    if writer is not None and writer.is_usable and not _has_successor(writer):
        writer.reopen(first_step)
    else:
        writer = StoreWriter(directory, first_step, rank)
    _writers[key] = writer
    # Without a lock, which a forked child might find locked forever; so others may be at it.
    for oldest in list(_writers)[:-REMEMBERED]:
        _writers.pop(oldest, None)
    return writer


def _has_successor(writer: StoreWriter) -> bool:
    """Whether another writer of this rank has begun since: a rank's attempts stay in order."""
    return any(other > writer.name for other in names.writers_in(writer.directory, writer.rank))
