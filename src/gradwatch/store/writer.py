"""Writing readings into journals."""

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Reading
from gradwatch.store import file_names as names
from gradwatch.store import process, records, sealing
from gradwatch.store.attempt_log import AttemptLog
from gradwatch.store.journal import ATTEMPT, END, FACTS, FORMAT, SITES, WRITER
from gradwatch.store.journal_file import JournalFile
from gradwatch.store.records import PendingReading, ReadingEncoder, Record
from gradwatch.store.site_numbers import SiteNumbers
from gradwatch.watches.probes import png

ROWS_A_JOURNAL = 1 << 19
BYTES_A_JOURNAL = 32 << 20
CELLS_A_ROW = 4
"""How many cells of histograms weigh as much as a row, in the memory that sealing takes."""
LINGER = 1.0
"""Seconds after `close` during which the journal stays as it is, to be continued."""


class StoreWriter:
    """Writes readings into a run's directory; see README.md in this folder.

    What `write` returned from survives a kill of the process, and a loss of power
    once it is `flush` seconds old. Call it from one thread that is not training's. In a forked
    child, all methods do nothing.

    What the run already has from `first_step` on is of an earlier attempt. A journal of
    `rows_a_journal` or `bytes_a_journal` is full: it is sealed, and the next one begins. All files
    of the writer bear its `name`.
    """

    def __init__(
        self,
        directory: Path,
        first_step: int = 1,
        rank: int = 0,
        *,
        flush: float = 1.0,
        rows_a_journal: int = ROWS_A_JOURNAL,
        bytes_a_journal: int = BYTES_A_JOURNAL,
    ) -> None:
        self.directory = Path(directory).absolute()
        self.rank = rank
        # Not by the clock alone, which may have been ahead when an earlier one began: the
        # later one replaces what the earlier one has recorded of the same steps.
        self.name = names.new_writer(rank, after=names.writers_in(self.directory, rank))
        self._flush = flush
        self._limits = (rows_a_journal, bytes_a_journal)
        self._started = time.time()
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._is_open = True
        self._fault: OSError | None = None
        self._sites = SiteNumbers()
        self._attempts = AttemptLog(first_step)
        self._groups: dict[str, list[int]] = {}
        self._journal: JournalFile | None = None
        self._next_number = 0
        self._rows = 0
        self._stated = _Stated()
        self._lost_rows = 0
        self._has_more = False
        self._encoder = ReadingEncoder()
        self._sync_again = 0.0

    def write(self, reading: Reading) -> None:
        """Append a reading to the journal, wholly or not at all.

        On `OSError`, as of a full disk, its rows are counted as lost, and the next reading that can
        be written states the number.
        """
        if self._process != os.getpid():
            return
        with self._lock:
            if not self._is_open:
                raise RuntimeError(f"write() on a closed StoreWriter of {self.directory}.")
            try:
                self._write([reading])
            except BaseException:
                self._lost_rows += len(reading)
                raise
            finally:
                self._has_more = True

    def write_many(self, readings: Sequence[Reading]) -> None:
        """Append readings, all or none; on `OSError` they do not count as lost: `write` each."""
        if self._process != os.getpid():
            return
        with self._lock:
            if not self._is_open:
                raise RuntimeError(f"write_many() on a closed StoreWriter of {self.directory}.")
            self._write(readings)
            self._has_more = True

    def close(self) -> None:
        """End the record, durably; sealing follows in the background, a second later.

        An `OSError` may also mean that something before could not be synced.
        """
        if self._process != os.getpid():
            return
        with self._lock:
            if not self._is_open:
                return
            self._is_open = False
            try:
                if self._has_more:
                    self._end()
            finally:
                sealing.sealer.later(self.name, LINGER, self._settle)
            fault, self._fault = self._fault, None
        if fault is not None:
            raise fault

    def reopen(self, first_step: int) -> None:
        """Go on after `close`, in the same journal if it is not being sealed yet."""
        with self._lock:
            self._is_open = True
            self._attempts.reopen(first_step)

    @property
    def is_usable(self) -> bool:
        """Whether `reopen` may be called: it is closed, and not a parent process's."""
        return not self._is_open and self._process == os.getpid()

    def _write(self, readings: Sequence[Reading]) -> None:
        before = self._attempts.save()
        try:
            taken = self._records_of(readings)
            unsynced = None if self._journal is None or self._journal.is_synced else self._journal
            journal = self._append(taken)
        except BaseException:
            self._attempts.restore(before)
            raise
        self._lost_rows = 0
        self._rows += sum(map(_weight, readings))
        if self._rows >= self._limits[0] or journal.bytes >= self._limits[1]:
            self._finish(journal)
        elif journal is not unsynced or time.monotonic() >= self._sync_again:
            self._sync_soon(journal)

    def _records_of(self, readings: Sequence[Reading]) -> list[Record]:
        pending, drawn = [], []
        lost_rows = self._lost_rows
        for reading in readings:
            sites = self._sites.numbers(reading.sites, reading.group)
            self._join_groups(reading, sites)
            attempt = self._attempts.attempt_of(reading, sites)
            self._attempts.add(reading, sites)
            pending.append(PendingReading(reading, sites, attempt, lost_rows))
            drawn.append(self._pictures(reading, attempt))
            lost_rows = 0
        frames = self._encoder.encode(pending)
        return [
            each
            for frame, pictures in zip(frames, drawn, strict=True)
            for each in (frame, *pictures)
        ]

    def _pictures(self, reading: Reading, attempt: int) -> list[Record]:
        if not reading.pictures:
            return []
        sites = self._sites.numbers(list(reading.pictures), reading.group).tolist()
        return [
            records.picture(reading, site, attempt, png.encode(image))
            for site, image in zip(sites, reading.pictures.values(), strict=True)
        ]

    def _append(self, taken: list[Record]) -> JournalFile:
        journal = self._journal or self._begin()
        try:
            journal.append([*self._not_stated(journal), *taken])
        except FileNotFoundError:
            # Someone has deleted it. What was in it is gone; the next one is complete again.
            self._journal = None
            journal.close()
            journal = self._begin()
            journal.append([*self._not_stated(journal), *taken])
        self._stated = _Stated(len(self._sites.entries), len(self._attempts.entries), self._groups)
        return journal

    def _begin(self) -> JournalFile:
        number = self._next_number
        self._journal = JournalFile(names.journal(self.directory, self.name, number), number)
        self._next_number, self._rows, self._stated = number + 1, 0, _Stated()
        listener = sealing.listeners.get(self.directory)
        if listener is not None:
            self._seal_after(listener.every, self._journal)
        return self._journal

    def _seal_after(self, seconds: float, journal: JournalFile) -> None:
        """Seal a journal at that age even if it is not full: a listener waits for segments."""

        def is_old() -> None:
            with self._lock:
                if self._journal is journal and journal.frames:
                    self._finish(journal)

        sealing.sealer.later((journal.path, "age"), seconds, is_old)

    def _not_stated(self, journal: JournalFile) -> list[Record]:
        """The records that must precede the next reading: new sites, attempts and groups."""
        taken = []
        if journal.frames == 0:
            taken.append(
                records.facts(
                    WRITER,
                    format=FORMAT,
                    writer=self.name,
                    rank=self.rank,
                    **process.describe(),
                    started=self._started,
                    number=journal.number,
                )
            )
        first = self._stated.sites
        if first < len(self._sites.entries):
            sites = self._sites.entries[first:]
            taken.append(records.facts(SITES, first=first, sites=sites))
        for attempt in self._attempts.entries[self._stated.attempts :]:
            taken.append(records.facts(ATTEMPT, **attempt))
        if self._groups != self._stated.groups:
            taken.append(records.facts(FACTS, groups=self._groups))
        return taken

    def _join_groups(self, reading: Reading, sites: NDArray[np.int64]) -> None:
        """Note which sites belong to the groups that the user has named."""
        prefix = f"{reading.group}/" if reading.group else ""
        for name, positions in reading.members.items():
            known = self._groups.get(prefix + name, [])
            joined = sorted({*known, *sites[list(positions)].tolist()})
            if joined != known:
                # A new dictionary: the old one is what the journal states.
                self._groups = {**self._groups, prefix + name: joined}

    def _end(self) -> None:
        ending = records.facts(END, time=time.time(), lost_rows=self._lost_rows)
        journal = self._append([ending])
        self._lost_rows, self._has_more = 0, False
        journal.sync()

    def _finish(self, journal: JournalFile) -> None:
        """The journal is full: let it be sealed, and begin another with the next reading."""
        self._journal = None
        syncer, sealer = sealing.syncer, sealing.sealer

        def let_go() -> None:
            self._sync(journal)
            journal.close()

        syncer.later(journal.path, 0.0, let_go)
        sealer.submit(journal.path, journal.frames)

    def _settle(self) -> None:
        """Some time after `close`, on the sealing thread: seal the rest, unless reopened."""
        with self._lock:
            journal = self._journal
            if self._is_open or journal is None:
                return
            self._journal = None
        # The syncing thread lets go of it: it may be about to sync it.
        sealing.syncer.later(journal.path, 0.0, journal.close)
        if journal.frames:
            sealing.sealer.submit(journal.path, journal.frames)

    def _sync_soon(self, journal: JournalFile) -> None:
        # Once for all that is written meanwhile: each time anew, it would never be due. And
        # again some time later, in case that there was no thread to be had.
        self._sync_again = time.monotonic() + 2 * self._flush
        sealing.syncer.later(journal.path, self._flush, lambda: self._sync(journal))

    def _sync(self, journal: JournalFile) -> None:
        try:
            if not journal.is_synced:
                journal.sync()
        except OSError as fault:
            self._fault = self._fault or fault


def _weight(reading: Reading) -> int:
    """How many rows its sealing weighs."""
    cells = sum(int(np.count_nonzero(counts)) for counts in reading.cells.values())
    return len(reading) + cells // CELLS_A_ROW


class _Stated:
    """How many sites and attempts, and which groups, the current journal states."""

    def __init__(
        self, sites: int = 0, attempts: int = 0, groups: dict[str, Any] | None = None
    ) -> None:
        self.sites, self.attempts, self.groups = sites, attempts, groups or {}
