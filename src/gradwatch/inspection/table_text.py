"""An inspection as text."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gradwatch.core import STATISTICS, Histogram, Kind, finite, shown, zero_share
from gradwatch.util import TextColumn, percent, percent_range, printable
from gradwatch.util.text_table import plain_lines, styled

if TYPE_CHECKING:
    from rich.text import Text

    from gradwatch.inspection.inspected import InspectedGradient, Inspection

NUMBERS = {"sum": "sum", "l1": "L1", "l2": "L2", "mean": "mean", "std": "std"}
NUMBERS |= {"min": "min", "max": "max"}
CAST = "float16"
HEADER = ["gradient of", "shape", "dtype", *NUMBERS.values(), "zeros", "NaN/Inf"]
HEADER += [f"lost in {CAST}", "first values"]
# Words are aligned to the left, numbers to the right.
LEFT = {0, 1, 2, len(HEADER) - 1}


def show(inspection: Inspection) -> None:
    """Print the inspection: as HTML in a notebook, as a table in a terminal, else as text."""
    from rich.console import Console as Terminal
    from rich.text import Text

    terminal = Terminal(highlight=False)
    if terminal.is_jupyter:
        from IPython.display import display  # type: ignore[import-not-found,unused-ignore]

        display(inspection)  # type: ignore[no-untyped-call,unused-ignore]
        # The value of a cell's last line is displayed too: it must not be shown twice.
        inspection.shown_in = running_cell()
        return
    if not terminal.is_terminal:
        print(as_text(inspection))
        return
    columns = text_columns(inspection)
    is_wide = terminal.width >= sum(column.width + 2 for column in columns)
    terminal.print(Text(title(inspection), "bold"))
    terminal.print(styled(columns) if is_wide else Text("\n").join(_blocks(inspection)))
    for remark in remarks(inspection):
        terminal.print(Text(remark))


def running_cell() -> int | None:
    """The number of the notebook cell that is running; None outside of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return None if shell is None else int(shell.execution_count)


def as_text(inspection: Inspection) -> str:
    """One line for each gradient, as long as necessary."""
    lines = plain_lines(text_columns(inspection))
    return "\n".join([title(inspection), *lines, *remarks(inspection)])


def title(inspection: Inspection) -> str:
    how = "as in training" if inspection.training else "as in prediction"
    return f"gradwatch · {printable(inspection.model)} · loss {inspection.loss:.6g} · called {how}"


def remarks(inspection: Inspection) -> list[str]:
    """What is not shown, and why."""
    return [f"Not shown: {printable(remark)}" for remark in inspection.remarks]


def text_columns(inspection: Inspection) -> list[TextColumn]:
    by_column = zip(*cells(inspection), strict=True)
    return [
        TextColumn(header, own, left=i in LEFT)
        for i, (header, own) in enumerate(zip(HEADER, by_column, strict=True))
    ]


def cells(inspection: Inspection) -> list[list[str]]:
    """The table below `HEADER`: a row for each entry, and one for all of them."""
    rows = [_row(entry) for entry in inspection.entries]
    total = inspection.total_histogram()
    if float(total.summary.count) > 0:
        rows.append(["all trainable weights", "", "", *_numbers(total), ""])
    return rows


def _row(entry: InspectedGradient) -> list[str]:
    name = printable(entry.site.path)
    if entry.site.kind is Kind.OUTPUT_GRADIENT:
        name += " output"
    elif not entry.trainable:
        name += " (not trained)"
    start = [name, str(entry.shape), entry.dtype]
    if entry.histogram is None:
        return [*start, *["-"] * (len(NUMBERS) + 3), "no gradient: the loss does not depend on it"]
    more = ["…"] if float(entry.histogram.summary.count) > len(entry.first_values) > 0 else []
    first = " ".join([*map(_compact, entry.first_values), *more])
    return [*start, *_numbers(entry.histogram), first]


def _numbers(histogram: Histogram) -> list[str]:
    summary = histogram.summary
    zeros = percent(float(zero_share(summary))) if float(summary.count) else "-"
    numbers = [_compact(float(shown(STATISTICS[name], summary))) for name in NUMBERS]
    return [*numbers, zeros, str(int(summary.count - finite(summary))), _lost(histogram)]


def _lost(histogram: Histogram) -> str:
    """The share of the elements other than 0 that a cast would make 0 or too large."""
    lost = histogram.lost(CAST)
    if not lost.elements:
        return "-"
    zero, overflow = lost.shares()["zero"], lost.shares()["overflow"]
    return percent_range(zero.low + overflow.low, zero.high + overflow.high)


def _compact(value: float) -> str:
    return "0" if value == 0 else f"{value:.4g}"


def _blocks(inspection: Inspection) -> list[Text]:
    """A few lines for each gradient, for a terminal too narrow for the table."""
    from rich.text import Text

    lines = []
    for name, shape, dtype, *numbers, first in cells(inspection):
        lines.append(Text(f"{name}  {shape} {dtype}".rstrip(), "bold"))
        pairs = zip(HEADER[3:-1], numbers, strict=True)
        lines.append(Text("  " + "  ".join(f"{header} {cell}" for header, cell in pairs)))
        lines += [Text(f"  first values {first}")] * bool(first)
    return lines
