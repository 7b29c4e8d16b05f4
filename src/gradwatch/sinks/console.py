"""A compact table in the terminal at the end of each epoch."""

import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Kind, Reading, Site, Summary, finite, l2, linf, mean, rms
from gradwatch.sinks.base import SINK_SYNONYMS, RunInfo, Sink
from gradwatch.util import TextColumn, compact, percent, printable, suggests_arguments, without_root
from gradwatch.util.text_table import (
    DEFAULT_WIDTH,
    fit,
    styled,
    table_text,
    terminal_width,
    titled,
)

Array = NDArray[np.float64]


class Console(Sink):
    """Prints one row a layer after each epoch, and one for the whole model.

    Shown are the newest values of each kind that is watched; `update/w` is the L2
    norm of the update relative to that of the weights, `out zeros` the share of the
    layer's outputs that are 0, and `NaN/Inf` the number of elements that are not
    finite, shown if there are any. The last line is the measuring interval and its cost.
    The output is never wider than the terminal: long names are shortened in the middle,
    and if that is not enough, columns are left out. Into a file or a pipe it is plain text,
    100 columns wide unless the environment variable `COLUMNS` says otherwise.
    Characters of a name that would not print, or would act on the terminal, are
    shown escaped.

    Args:
        max_rows: how many layers to show. Of more than that, the first and last
            ones and those with the largest and smallest gradients are shown.
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
    def __init__(self, max_rows: int = 20, file: TextIO | None = None) -> None:
        if max_rows < 1:
            raise ValueError(f"max_rows must be >= 1. Received: max_rows={max_rows}")
        self.max_rows = max_rows
        self._file = file
        # Written by a background thread, read by the training thread.
        self._lock = threading.Lock()
        self._step = 0
        self._newest: dict[Site, Array] = {}
        self._losses: dict[str, float] = {}
        self._layers: list[str] = []
        self._cost: Callable[[], str] = str

    def open(self, run: RunInfo) -> None:
        with self._lock:
            self._cost = run.cost
            self._step = 0
            self._newest = {}
            self._losses = {}
            self._layers = []

    def write(self, reading: Reading) -> None:
        if reading.micro_batch is not None or reading.is_report:
            return  # The whole step is shown, as it was measured.
        rows = reading.summary.pack()
        with self._lock:
            self._step = reading.step
            self._losses.update(reading.losses())
            known = len(self._newest)
            whole = {
                site: row
                for site, row in zip(reading.sites, rows, strict=True)
                if not (site.is_slice or site.kind.is_number or site.kind.is_of_batch)
            }
            self._newest.update(whole)
            if len(self._newest) > known:
                _extend(self._layers, dict.fromkeys(site.layer for site in whole))

    def epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        with self._lock:
            newest, layers = dict(self._newest), list(self._layers)
            losses = [f"{printable(p)} {v:.4g}" for p, v in self._losses.items()]
            title = " · ".join((f"gradwatch · epoch {epoch} · step {self._step}", *losses))
        if newest:
            with np.errstate(all="ignore"):
                columns = _columns(_lines(newest, layers), self.max_rows)
            # A broken output is no reason to fail.
            with suppress(Exception):
                _print(title, columns, self._file, self._cost())


def _print(title: str, columns: list[TextColumn], file: TextIO | None, note: str) -> None:
    stream = sys.stdout if file is None else file
    if stream is None:  # a program without a console
        return
    from rich.console import Console as Notebook

    if file is None and (notebook := Notebook()).is_jupyter:
        fitted = fit(columns, max(notebook.width, DEFAULT_WIDTH))
        notebook.print(titled(title, styled(fitted, "bold"), note))
        return
    width = terminal_width(stream)
    text = table_text(columns, stream, title=title, note=note, last_row="bold", pipe_width=width)
    # On a new line, because a progress bar may have left the cursor on its own; and in one
    # piece, because other threads print too.
    stream.write(f"\n{text}")
    stream.flush()


@dataclass
class _Line:
    """A layer, or the model: its summaries by kind."""

    name: str
    kinds: dict[Kind, Summary]
    ratio: float

    @property
    def parameters(self) -> int:
        own = [s for kind, s in self.kinds.items() if kind.is_of_variable]
        return int(max((float(summary.count) for summary in own), default=0.0))

    @property
    def nonfinite(self) -> int:
        """NaN and Inf elements, over everything that is watched."""
        return int(sum(float(s.count - finite(s)) for s in self.kinds.values()))


def _extend(layers: list[str], more: Iterable[str]) -> None:
    """Put new layers where they stand in the network: after the one they follow."""
    place = 0
    for layer in more:
        if layer in layers:
            place = layers.index(layer) + 1
        else:
            layers.insert(place, layer)
            place += 1


def _lines(newest: Mapping[Site, Array], layers: Sequence[str]) -> list[_Line]:
    members: dict[str, list[Site]] = {layer: [] for layer in layers}
    for site in newest:
        members[site.layer].append(site)
    names = map(printable, without_root(layers))
    groups = list(zip(names, members.values(), strict=True))
    return [_line(name, sites, newest) for name, sites in [*groups, ("model", list(newest))]]


def _line(name: str, sites: Sequence[Site], newest: Mapping[Site, Array]) -> _Line:
    kinds: dict[Kind, list[Array]] = {}
    for site in sites:
        kinds.setdefault(site.kind, []).append(newest[site])
    updates = [site for site in sites if site.kind is Kind.UPDATE]
    pairs = [(newest[u], newest.get(Site(Kind.WEIGHT, u.path))) for u in updates]
    both = [(update, weight) for update, weight in pairs if weight is not None]
    ratio = float("nan")
    if both:
        size = l2(_merge([weight for _, weight in both]))
        ratio = float(l2(_merge([update for update, _ in both])) / size) if size > 0 else ratio
    return _Line(name, {kind: _merge(rows) for kind, rows in kinds.items()}, ratio)


def _merge(rows: list[Array]) -> Summary:
    return Summary.unpack(np.stack(rows)).merge_all()


def _columns(lines: list[_Line], most: int) -> list[TextColumn]:
    """The table, by columns; those of kinds that were never measured are left out."""
    *layers, model = lines
    kind = Kind.GRADIENT if Kind.GRADIENT in model.kinds else Kind.APPLIED_GRADIENT
    shown = [layers[i] for i in _choose([_number(l2, line, kind) for line in layers], most)]
    hidden = len(layers) - len(shown)

    def column(header: str, cell: Callable[[_Line], str], weight: int) -> TextColumn:
        cells = [cell(line) for line in shown]
        cells += ["" if weight else f"… {hidden} more"] * (hidden > 0)
        cells.append(cell(model))
        return TextColumn(header, cells, left=weight == 0, weight=weight)

    def numbers(header: str, of: Callable[[Summary], Array], kind: Kind, weight: int) -> TextColumn:
        return column(header, lambda line: _words(_number(of, line, kind)), weight)

    columns = [
        column("layer", lambda line: line.name, 0),
        column("params", lambda line: _thousands(line.parameters), 3),
    ]
    if Kind.WEIGHT in model.kinds:
        columns.append(numbers("weight L2", l2, Kind.WEIGHT, 5))
    if kind in model.kinds:
        short = "grad" if kind is Kind.GRADIENT else "applied"
        columns += [
            numbers(f"{short} L2", l2, kind, 7),
            numbers(f"{short} RMS", rms, kind, 1),
            numbers(f"{short} max", linf, kind, 4),
        ]
    if Kind.UPDATE in model.kinds:
        columns.append(column("update/w", lambda line: _words(line.ratio), 6))
    if kind in model.kinds:
        columns.append(column("zeros", lambda line: percent(_number(_zeros, line, kind)), 2))
    if Kind.OUTPUT in model.kinds:
        share = Kind.OUTPUT
        columns.append(column("out zeros", lambda line: percent(_number(_zeros, line, share)), 5))
    if Kind.DEAD_UNIT in model.kinds:
        dead = Kind.DEAD_UNIT
        columns.append(column("dead units", lambda line: percent(_number(mean, line, dead)), 5))
    if model.nonfinite:
        counts = column("NaN/Inf", lambda line: str(line.nonfinite), 8)
        alarms = frozenset(i for i, cell in enumerate(counts.cells) if cell not in ("0", ""))
        columns.append(replace(counts, alarms=alarms))
    return columns


def _choose(gradients: Sequence[float], most: int) -> list[int]:
    """The layers to show: the first, last, largest and smallest in turn, in network order."""
    first = range(len(gradients))
    if len(gradients) <= most:
        return list(first)
    measured = [i for i in first if not np.isnan(gradients[i])]
    largest = sorted(measured, key=lambda i: -gradients[i])
    turns = [list(first), list(first)[::-1], largest, largest[::-1]]
    candidates = (turn[k] for k in first for turn in turns if k < len(turn))
    return sorted(list(dict.fromkeys(candidates))[:most])


def _zeros(s: Summary) -> Array:
    return s.zeros / s.count


def _number(of: Callable[[Summary], Array], line: _Line, kind: Kind) -> float:
    """A statistic of a line; NaN where that kind was not measured."""
    return float(of(line.kinds[kind])) if kind in line.kinds else float("nan")


def _words(value: float) -> str:
    return "-" if np.isnan(value) else compact(value)


def _thousands(number: int) -> str:
    """A count in three or four digits: 512, 25.1k, 7.48M."""
    if number < 1000:
        return str(number)
    # The exponent after rounding, so that 999,999 is 1.00M and not 1000k.
    power = min(int(f"{number:.2e}".partition("e")[2]) // 3, 4)
    value = number / 1000**power
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}{'kMBT'[power - 1]}"
