"""An inspection as text, or as a table in a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gradwatch.core import STATISTICS, Kind, Summary, finite
from gradwatch.util import printable

if TYPE_CHECKING:
    from gradwatch.inspection.inspected import Entry, Inspection

NUMBERS = {"sum": "sum", "l1": "L1", "l2": "L2", "mean": "mean", "std": "std"}
NUMBERS |= {"min": "min", "max": "max"}
HEADER = ["gradient of", "shape", "dtype", *NUMBERS.values(), "zeros", "NaN/Inf", "first values"]
# Numbers are set to the right, names to the left.
LEFT = {0, 1, 2, len(HEADER) - 1}


def show(inspection: Inspection) -> None:
    """Print it: HTML in a notebook, a table in a terminal, else plain text."""
    from rich.console import Console as Terminal

    terminal = Terminal()
    if terminal.is_jupyter:
        from IPython.display import display  # type: ignore[import-not-found,unused-ignore]

        display(inspection)  # type: ignore[no-untyped-call,unused-ignore]
        # As a cell's last line its value is displayed too, which would be the same once more.
        inspection.shown_in = running_cell()
    elif not terminal.is_terminal:
        print(as_text(inspection), file=sys.stdout)
    elif terminal.width >= _width(cells(inspection)):
        _print_table(inspection, terminal)
    else:
        _print_blocks(inspection, terminal)


def running_cell() -> int | None:
    """The number of the notebook's cell that is being run; None outside of one."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return None if shell is None else int(shell.execution_count)


def as_text(inspection: Inspection) -> str:
    """One line a gradient, as long as it needs to be."""
    table = [HEADER, *cells(inspection)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if i in LEFT else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]
    return "\n".join([title(inspection), *lines, *remarks(inspection)])


def title(inspection: Inspection) -> str:
    """What was inspected, in a line."""
    how = "as in training" if inspection.training else "as in prediction"
    return f"gradwatch · {printable(inspection.model)} · loss {inspection.loss:.6g} · called {how}"


def remarks(inspection: Inspection) -> list[str]:
    """What is not shown."""
    return [f"Not shown: {printable(remark)}" for remark in inspection.remarks]


def cells(inspection: Inspection) -> list[list[str]]:
    """The table below `HEADER`: a row for each entry, and one for all of them."""
    rows = [_row(entry) for entry in inspection.entries]
    total = inspection.total()
    if float(total.count) > 0:
        rows.append(["all trainable weights", "", "", *_numbers(total), ""])
    return rows


def _row(entry: Entry) -> list[str]:
    name = printable(entry.site.path)
    if entry.site.kind is Kind.OUTPUT_GRADIENT:
        name += " output"
    elif not entry.trainable:
        name += " (not trained)"
    start = [name, str(entry.shape), entry.dtype]
    if entry.summary is None:
        return [*start, *["-"] * (len(NUMBERS) + 2), "no gradient: the loss does not depend on it"]
    more = ["…"] if float(entry.summary.count) > len(entry.first_values) > 0 else []
    first = " ".join([*map(_compact, entry.first_values), *more])
    return [*start, *_numbers(entry.summary), first]


def _numbers(summary: Summary) -> list[str]:
    count = float(summary.count)
    zeros = f"{float(summary.zeros) / count:.1%}" if count else "-"
    numbers = [_compact(float(STATISTICS[name](summary))) for name in NUMBERS]
    return [*numbers, zeros, str(int(summary.count - finite(summary)))]


def _compact(value: float) -> str:
    return "0" if value == 0 else f"{value:.4g}"


def _width(rows: list[list[str]]) -> int:
    columns = zip(HEADER, *rows, strict=True)
    return sum(max(map(len, column)) + 2 for column in columns)


def _print_table(inspection: Inspection, terminal: object) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="dim")
    for i, header in enumerate(HEADER):
        table.add_column(Text(header), justify="left" if i in LEFT else "right", no_wrap=True)
    for row in cells(inspection):
        # As Text, so that a name like "[red]" is a name and no markup.
        table.add_row(*(Text(cell) for cell in row))
    first = Text(title(inspection), style="bold")
    for part in (first, table, *map(Text, remarks(inspection))):
        terminal.print(part)  # type: ignore[attr-defined]


def _print_blocks(inspection: Inspection, terminal: object) -> None:
    """For a terminal too narrow for the table: a few lines for each gradient."""
    from rich.text import Text

    lines = [Text(title(inspection), style="bold")]
    for name, *others in cells(inspection):
        shape, dtype, *numbers, first = others
        lines.append(Text(f"{name}  {shape} {dtype}".rstrip(), style="bold"))
        pairs = zip(HEADER[3:-1], numbers, strict=True)
        lines.append(Text("  " + "  ".join(f"{header} {cell}" for header, cell in pairs)))
        if first:
            lines.append(Text(f"  first values {first}"))
    for line in (*lines, *map(Text, remarks(inspection))):
        terminal.print(line)  # type: ignore[attr-defined]
