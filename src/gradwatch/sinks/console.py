"""A compact table in the terminal at the end of each epoch."""

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Kind, LayerList, Reading, Site
from gradwatch.sinks.base import SINK_SYNONYMS, RunInfo, Sink
from gradwatch.sinks.layer_lines import layer_lines, table_columns
from gradwatch.util import TextColumn, display_width, printable, shortened, suggests_arguments
from gradwatch.util.fold_names import MAX_ROWS
from gradwatch.util.text_table import (
    DEFAULT_WIDTH,
    fit,
    styled,
    table_text,
    terminal_width,
    titled,
)

Array = NDArray[np.float64]
_MOST_KNOWN = 16


class Console(Sink):
    """Prints one row a layer after each epoch, in network order, and one for the whole model.

    The title has the loss and the metrics of the epoch, as far as training reports them, or else
    of the newest step; each is followed by that of the validation.
    Shown are the newest values of each kind that is watched; `update/w` is the L2
    norm of the update relative to that of the weights, `out zeros` the share of the
    layer's outputs that are 0, and `NaN/Inf` the number of elements that are not
    finite, shown if there are any. A number of a tensor with such elements is NaN or infinite.
    The last line is the measuring interval and its cost, once that is known.

    More layers than `max_rows` are folded: those of a block into one row, and neighbouring blocks
    into a range. Such a row has the sum of parameters, the smallest and the largest of the other
    numbers, and as `outlier` the layer whose gradient is least like those of the other layers.

    The output is never wider than the terminal: long names are shortened in the middle, so
    that they still differ, and if that is not enough, columns are left out. Into a file or a pipe
    it is plain text, 100 columns wide unless the environment variable `COLUMNS` says otherwise.
    Characters of a name that would not print, or would act on the terminal, are
    shown escaped. It also prints where the run is when it begins, and how it went when it ends.
    `fit(verbose=0)` keeps it quiet, unless it has a file.

    Args:
        max_rows: how many rows to print for layers.
        file: where to print; `sys.stdout` at that time if not given.

    Example:

    >>> import pathlib, sys
    >>> from gradwatch.core import Reading
    >>> from gradwatch.sinks import Console, RunInfo
    >>> from gradwatch.core import Kind, Site, Summary
    >>> sink = Console(file=sys.stdout)
    >>> sink.open(RunInfo(pathlib.Path(".")))
    >>> sink.write(Reading(12, 1, 0.0, [Site(Kind.GRADIENT, "dense/kernel")],
    ...                    Summary.unpack(Summary.of([0.0, 3.0, 4.0, 0.0]).pack()[None])))
    >>> sink.epoch_end(1, {})
    <BLANKLINE>
    gradwatch · epoch 1 · step 12
    layer  params  grad L2  grad RMS  grad max  zeros
    dense       4     5.00      2.50      4.00  50.0%
    model       4     5.00      2.50      4.00  50.0%
    """

    threaded = False

    @suggests_arguments(SINK_SYNONYMS)
    def __init__(self, max_rows: int = MAX_ROWS, file: TextIO | None = None) -> None:
        if max_rows < 1:
            raise ValueError(f"max_rows must be >= 1. Received: max_rows={max_rows}")
        self.max_rows = max_rows
        self._file = file
        # Written by a background thread, read by the training thread.
        self._lock = threading.Lock()
        self._step = 0
        self._known: dict[int, Sequence[Site]] = {}
        """The sites of readings, by their identity."""
        self._waiting: dict[int, Reading] = {}
        """The newest reading of each of them, if its rows have not been taken; oldest first."""
        self._newest: dict[Site, Array] = {}
        self._losses: dict[str, float] = {}
        self._metrics: dict[str, float] = {}
        self._layers = LayerList()
        self._cost: Callable[[], str] = str
        self._is_quiet = False

    def open(self, run: RunInfo) -> None:
        with self._lock:
            self._cost = run.cost
            self._is_quiet = run.is_quiet and self._file is None
            self._step = 0
            self._known = {}
            self._waiting = {}
            self._newest = {}
            self._losses = {}
            self._metrics = {}
            self._layers = LayerList()

    def write(self, reading: Reading) -> None:
        if reading.micro_batch is not None:
            return  # The whole step is shown.
        with self._lock:
            self._metrics.update(reading.numbers(Kind.METRIC))
        if reading.is_report:
            return  # The step is shown as it was measured.
        with self._lock:
            self._step = reading.step
            self._losses.update(reading.losses())
            self._waiting.pop(id(reading.sites), None)
            self._waiting[id(reading.sites)] = reading
            if id(reading.sites) not in self._known:
                # Now: the layers are shown in the order in which they came.
                self._take_rows()
                if len(self._known) >= _MOST_KNOWN:
                    self._known = {}
                self._known[id(reading.sites)] = reading.sites

    def _take_rows(self) -> None:
        """Take the rows of the readings that wait; seldom, because it takes as long as a step."""
        waiting, self._waiting = self._waiting, {}
        for reading in waiting.values():
            known = len(self._newest)
            whole = {
                site: row
                for site, row in zip(reading.sites, reading.summary.pack(), strict=True)
                if not (site.is_slice or site.kind.is_number or site.kind.is_of_batch)
            }
            self._newest.update(whole)
            if len(self._newest) > known:
                self._layers.add(whole)

    def say(self, line: str, *, is_below_bar: bool = False) -> None:
        """Print a line about the run, on any thread."""
        stream = sys.stdout if self._file is None else self._file
        if self._is_quiet or stream is None:
            return
        # A broken output is no reason to fail.
        with suppress(Exception):
            stream.write(f"{chr(10) * is_below_bar}{line}\n")
            stream.flush()

    def epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        if self._is_quiet:
            return
        with self._lock:
            self._take_rows()
            newest = dict(self._newest)
            members = self._layers.members(newest)
            numbers = {**self._losses, **self._metrics, **logs}
            title = f"gradwatch · epoch {epoch} · step {self._step}"
        if newest:
            with np.errstate(all="ignore"):
                columns = table_columns(layer_lines(members, newest), self.max_rows)
            # A broken output is no reason to fail.
            with suppress(Exception):
                _print(title, _in_order(numbers), columns, self._file, self._cost())


def _in_order(numbers: Mapping[str, float]) -> dict[str, str]:
    """The numbers as texts: losses first, and each followed by that of the validation."""

    def order(path: str) -> tuple[bool, int, bool]:
        base = _without_val(path)
        return base.rpartition("/")[2] != "loss", met.index(base), path != base

    met = list(dict.fromkeys(map(_without_val, numbers)))
    return {printable(path): f"{numbers[path]:.4g}" for path in sorted(numbers, key=order)}


def _without_val(path: str) -> str:
    group, slash, name = path.rpartition("/")
    return f"{group}{slash}{name.removeprefix('val_')}"


def _title_lines(title: str, numbers: Mapping[str, str], width: int) -> str:
    """The title and the numbers in as many lines as they need."""
    lines = [title]
    for name, value in numbers.items():
        # A long name is shortened, never the value: it would be another one.
        room = max(1, width - len(value) - 1)
        text = f"{shortened(name, room)} {value}"
        longer = f"{lines[-1]} · {text}"
        if display_width(longer) <= width:
            lines[-1] = longer
        elif display_width(text) <= width:
            lines.append(text)
    return "\n".join(lines)


def _print(
    title: str,
    numbers: Mapping[str, str],
    columns: list[TextColumn],
    file: TextIO | None,
    note: str,
) -> None:
    stream = sys.stdout if file is None else file
    if stream is None:  # a program without a console
        return
    from rich.console import Console as Notebook

    if file is None and (notebook := Notebook()).is_jupyter:
        fitted = fit(columns, max(notebook.width, DEFAULT_WIDTH))
        notebook.print(
            titled(
                " · ".join((title, *map(" ".join, numbers.items()))), styled(fitted, "bold"), note
            )
        )
        return
    width = terminal_width(stream)
    title = _title_lines(title, numbers, width)
    text = table_text(columns, stream, title=title, note=note, last_row="bold", pipe_width=width)
    # On a new line, because a progress bar may have left the cursor on its own; and in one
    # piece, because other threads print too.
    stream.write(f"\n{text}")
    stream.flush()
