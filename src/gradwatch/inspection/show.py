"""An inspection as text, as a table in a terminal, or as HTML."""

from __future__ import annotations

import sys
from html import escape
from typing import TYPE_CHECKING

from gradwatch.sinks.table import printable
from gradwatch.sites import Kind
from gradwatch.summary import STATISTICS, Summary, finite

if TYPE_CHECKING:
    from gradwatch.inspection.result import Entry, Inspection

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

        display(inspection)
    elif not terminal.is_terminal:
        print(as_text(inspection), file=sys.stdout)
    elif terminal.width >= _width(_cells(inspection)):
        _print_table(inspection, terminal)
    else:
        _print_blocks(inspection, terminal)


def as_text(inspection: Inspection) -> str:
    """One line a gradient, as long as it needs to be."""
    table = [HEADER, *_cells(inspection)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if i in LEFT else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]
    return "\n".join([_title(inspection), *lines, *_remarks(inspection)])


def as_html(inspection: Inspection) -> str:
    """A table; every name is escaped."""

    def row(cells: list[str], tag: str) -> str:
        sides = ["left" if i in LEFT else "right" for i in range(len(cells))]
        return "".join(
            f'<{tag} style="text-align:{side};white-space:nowrap">{escape(cell)}</{tag}>'
            for cell, side in zip(cells, sides, strict=True)
        )

    body = "".join(f"<tr>{row(cells, 'td')}</tr>" for cells in _cells(inspection))
    remarks = "".join(f"<p>{escape(line)}</p>" for line in _remarks(inspection))
    return (
        f"<p><b>{escape(_title(inspection))}</b></p>"
        f"<table><thead><tr>{row(HEADER, 'th')}</tr></thead><tbody>{body}</tbody></table>{remarks}"
    )


def _title(inspection: Inspection) -> str:
    how = "as in training" if inspection.training else "as in prediction"
    return f"gradwatch · {printable(inspection.model)} · loss {inspection.loss:.6g} · called {how}"


def _remarks(inspection: Inspection) -> list[str]:
    return [f"Not shown: {printable(remark)}" for remark in inspection.remarks]


def _cells(inspection: Inspection) -> list[list[str]]:
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
    for row in _cells(inspection):
        # As Text, so that a name like "[red]" is a name and no markup.
        table.add_row(*(Text(cell) for cell in row))
    title = Text(_title(inspection), style="bold")
    for part in (title, table, *map(Text, _remarks(inspection))):
        terminal.print(part)  # type: ignore[attr-defined]


def _print_blocks(inspection: Inspection, terminal: object) -> None:
    """For a terminal too narrow for the table: a few lines for each gradient."""
    from rich.text import Text

    lines = [Text(_title(inspection), style="bold")]
    for name, *cells in _cells(inspection):
        shape, dtype, *numbers, first = cells
        lines.append(Text(f"{name}  {shape} {dtype}".rstrip(), style="bold"))
        pairs = zip(HEADER[3:-1], numbers, strict=True)
        lines.append(Text("  " + "  ".join(f"{header} {cell}" for header, cell in pairs)))
        if first:
            lines.append(Text(f"  first values {first}"))
    for line in (*lines, *map(Text, _remarks(inspection))):
        terminal.print(line)  # type: ignore[attr-defined]
