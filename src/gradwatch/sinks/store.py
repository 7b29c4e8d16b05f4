"""The run store as a sink."""

from collections.abc import Sequence

from gradwatch.core import Reading
from gradwatch.sinks.base import SINK_SYNONYMS, RunInfo, Sink
from gradwatch.store import StoreWriter, writer_for
from gradwatch.util import suggests_arguments


class Store(Sink):
    """Writes all measurements into the run's directory, for `gradwatch.open` to read.

    Readings are appended to a journal, so a kill of the process loses none that
    was written and a loss of power at most the last second; full journals are turned
    into Parquet files in the background. A run that is resumed at an earlier step
    keeps both attempts.

    Args:
        rank: the number of this process among those that train together in one
            directory; if not given, as the framework knows it, such as `torch.distributed`.

    Example:

    >>> import gradwatch
    >>> monitor = gradwatch.Monitor("runs/a", sinks=[gradwatch.Store(), gradwatch.Console()])
    """

    of_each_rank = True

    @suggests_arguments(SINK_SYNONYMS)
    def __init__(self, rank: int | None = None) -> None:
        if rank is not None and rank < 0:
            raise ValueError(f"rank counts processes from 0. Received: {rank}")
        self.rank = rank
        self._writer: StoreWriter | None = None

    def open(self, run: RunInfo) -> None:
        self.close()
        rank = run.rank if self.rank is None else self.rank
        self._writer = writer_for(run.directory, run.first_step, rank)

    def write(self, reading: Reading) -> None:
        if self._writer is None:
            raise RuntimeError("Store.write() was called before open().")
        self._writer.write(reading)

    def write_many(self, readings: Sequence[Reading]) -> None:
        if self._writer is None:
            raise RuntimeError("Store.write_many() was called before open().")
        self._writer.write_many(readings)

    def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
