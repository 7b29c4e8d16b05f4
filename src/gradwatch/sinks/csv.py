"""Readings as one tidy table, for pandas, R or a spreadsheet."""

import csv
import functools
import io
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradwatch.core import STATISTICS, UPDATE_RATIO, Kind, Reading, Site, Statistic, Summary
from gradwatch.sinks.base import SINK_SYNONYMS, RunInfo, Sink
from gradwatch.util import suggests_arguments
from gradwatch.util.files import AppendFile

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\\\\]")


def columns() -> tuple[str, ...]:
    return ("step", "epoch", "time", "kind", "path", *STATISTICS, UPDATE_RATIO.name)


class CSV(Sink):
    """Writes one row per step and site into a table in the run's directory.

    The columns are `step, epoch, time, kind, path`, then every statistic in
    `gradwatch.core.STATISTICS`, then `update_ratio`, which only rows of kind
    `update` have. Rows of kind `group_gradient` are of a group of tensors, where
    there are `Totals` of them. Counts are whole numbers; other numbers read back as the
    same float64, including `nan`, `inf` and `-inf`.

    A resumed run continues the same file. Where it repeats steps of an earlier attempt, the
    later row is the valid one. An incomplete line that a crash left is removed. If the file
    has other columns, the table continues in `summaries-2.csv`, and so on.

    Names may contain anything, and a row is always one line: control
    characters, line separators, lone surrogates and the backslash are written as
    Python writes them (`\\n`, `\\x00`, `\\ud800`, `\\\\`). A name that a spreadsheet would take
    for a formula, because it starts with `=`, `+`, `-`, `@`, a tab or a carriage
    return, gets a leading `'`.

    Args:
        filename: the table's name within the run's directory.

    Example:

    >>> import pathlib, tempfile
    >>> from gradwatch.core import Reading
    >>> from gradwatch.sinks import CSV, RunInfo
    >>> from gradwatch.core import Kind, Site, Summary
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> sink = CSV()
    >>> sink.open(RunInfo(directory))
    >>> sink.write(Reading(1, 1, 0.5, [Site(Kind.WEIGHT, "dense/bias")],
    ...                    Summary.unpack(Summary.of([3.0, 4.0]).pack()[None])))
    >>> sink.close()
    >>> print((directory / "summaries.csv").read_text().splitlines()[1])
    1,1,0.5,weight,dense/bias,2,0,0,0,0,7.0,7.0,5.0,4.0,3.5355339059327378,3.5,0.5,3.0,4.0,
    """

    @suggests_arguments(SINK_SYNONYMS)
    def __init__(self, filename: str = "summaries.csv") -> None:
        self.filename = filename
        self._run: RunInfo | None = None
        self._file: AppendFile | None = None

    def open(self, run: RunInfo) -> None:
        self.close()
        self._run = run

    def write(self, reading: Reading) -> None:
        if self._run is None:
            raise RuntimeError("CSV.write() was called before open().")
        if self._file is None:
            header = (",".join(columns()) + "\n").encode()
            path = _table_to_continue(self._run.directory / self.filename, header)
            self._file = AppendFile(path, header=header)
        self._file.append(rows(reading).encode())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def rows(reading: Reading) -> str:
    """The reading's lines of the table, in the order of its sites."""
    with np.errstate(all="ignore"):
        cells = [_column(each, reading.summary) for each in STATISTICS.values()]
        ratios = reading.update_ratios()
    start = f"{reading.step},{reading.epoch},{float(reading.time)!r},"
    lines = [
        start + address + "," + ",".join(map(repr, numbers))
        for address, *numbers in zip(_addresses(reading.sites), *cells, strict=True)
    ]
    ends = [",\n"] * len(lines)
    for i, site in enumerate(reading.sites if ratios else ()):
        if site.kind is Kind.UPDATE and site.path in ratios:
            ends[i] = f",{ratios[site.path]!r}\n"
    text = "".join(itertools.chain.from_iterable(zip(lines, ends, strict=True)))
    return text + "".join(_rows_of_groups(reading, start))


def _rows_of_groups(reading: Reading, start: str) -> Iterator[str]:
    if not reading.members:
        return
    for kind in dict.fromkeys(site.kind for site in reading.sites):
        for name, summary in reading.named_totals(kind).items():
            with np.errstate(all="ignore"):
                numbers = [_column(each, summary) for each in STATISTICS.values()]
            yield f"{start}{_cells(f'group_{kind}', name)},{','.join(map(repr, numbers))},\n"


def _addresses(sites: Sequence[Site]) -> Sequence[str]:
    """Kind and path of each site, as they stand in the table."""
    # A run's readings are of the same few tuples of sites.
    return _kept_addresses(sites) if isinstance(sites, tuple) else _new_addresses(sites)


def _new_addresses(sites: Sequence[Site]) -> tuple[str, ...]:
    return tuple(_cells(str(site.kind), site.path) for site in sites)


_kept_addresses = functools.lru_cache(maxsize=16)(_new_addresses)


def _cells(kind: str, name: str) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow((kind, safe(name)))
    return text.getvalue()


def _column(statistic: Statistic, summary: Summary) -> Any:
    """A statistic as plain numbers, a list for a table of summaries; counts are whole."""
    numbers = np.asarray(statistic(summary))
    return (numbers.astype(np.int64) if statistic.is_count else numbers).tolist()


def safe(name: str) -> str:
    """The name on one line, in a form that no spreadsheet takes for a formula."""
    escaped = _UNSAFE.sub(lambda c: c[0].encode("unicode_escape").decode(), name)
    return f"'{escaped}" if name.startswith(("=", "+", "-", "@", "\t", "\r")) else escaped


def _table_to_continue(path: Path, header: bytes) -> Path:
    """The first of `name.csv`, `name-2.csv`, ... that is new or has the same columns."""
    candidate = path
    for number in itertools.count(2):
        if _mend(candidate, header):
            break
        candidate = path.with_stem(f"{path.stem}-{number}")
    return candidate


def _mend(path: Path, header: bytes) -> bool:
    """Cut off a torn last line; False if the table has other columns."""
    try:
        with path.open("r+b") as file:
            if not header.startswith(file.read(len(header))):
                return False
            # A torn header has no end of line either: all of it goes, to be written anew.
            file.truncate(_end_of_last_line(file))
    except FileNotFoundError:
        pass
    return True


def _end_of_last_line(file: io.BufferedRandom, block: int = 1 << 16) -> int:
    end = file.seek(0, os.SEEK_END)
    while end > 0:
        start = max(0, end - block)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0
