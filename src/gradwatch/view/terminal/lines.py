"""What `top` shows, line by line."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from gradwatch.util import printable
from gradwatch.view.glance import layer_table
from gradwatch.view.glance.sparkline import BARS, bars_for
from gradwatch.view.glance.standing import Standing
from gradwatch.view.glance.text_columns import GAP, Column, fitted, padded
from gradwatch.view.glance.words import counted
from gradwatch.view.terminal.head import Shown, above
from gradwatch.view.terminal.wishes import NETWORK, ORDERS

if TYPE_CHECKING:
    from rich.text import Text

# As many as there is room for, these first.
_KEYS = [("q", "quit"), ("/", "filter"), ("↑↓", "scroll"), ("r", "reverse")]
_KEYS += [(key, order) for order, (key, _, _) in ORDERS.items()]
_ASCII = str.maketrans({"·": "-", "…": "~", "▼": "v", "▲": "^", "↑": "^", "↓": "v"})


def page_of(shown: Shown, width: int, height: int) -> int:
    """How many layers are seen at a time."""
    return max(1, height - len(above(shown, width, height)) - 2)


def screen(shown: Shown, width: int, height: int) -> list[Text]:
    """The screen: as many lines as it is high, none wider than it is wide."""
    from rich.text import Text

    lines = above(shown, width, height)
    if shown.standing is not None:
        lines += _table(shown, width, shown.wishes.offset, max(1, height - len(lines) - 2))
    lines = lines[: height - 1]
    lines += [Text("")] * (height - 1 - len(lines))
    lines.append(_footer(shown, width, page_of(shown, width, height)))
    return [_fitting(line, width, shown.encoding) for line in lines[-height:]]


def everything(shown: Shown, width: int | None) -> list[Text]:
    """All of it at once, for what does not scroll by keys; not cut if `width` is None."""
    lines = above(shown, width, None)
    if shown.standing is not None:
        lines += _table(shown, width, 0, None)
    return [_fitting(line, width, shown.encoding) for line in lines]


def _table(shown: Shown, width: int | None, offset: int, rows: int | None) -> list[Text]:
    from rich.text import Text

    standing, wishes = shown.standing, shown.wishes
    assert standing is not None
    if not standing.layers:
        if wishes.patterns and standing.all_layers:
            asked = printable(" ".join(wishes.patterns))
            return [Text(f"{asked} selects none of {counted(standing.all_layers, 'layer')}.")]
        return [Text("No layer has been measured yet.")]
    order = wishes.ordered(standing.layers)
    offset = 0 if rows is None else max(0, min(offset, len(order) - rows))
    seen = order[offset:] if rows is None else order[offset : offset + rows]
    columns = [column.of(seen) for column in _columns(standing, shown.encoding)]
    mark = "▲" if wishes.reverse else "▼"
    ordered_by = ORDERS[wishes.order][1]
    marked = wishes.order != NETWORK or wishes.reverse
    columns = [
        replace(c, header=f"{c.header} {mark}") if marked and c.header == ordered_by else c
        for c in columns
    ]
    columns = fitted(columns, width)
    header, *cells = padded(columns)
    lines = [Text(GAP.join(header).rstrip(), "bold")]
    for i, row in enumerate(cells):
        line = Text()
        for j, (column, cell) in enumerate(zip(columns, row, strict=True)):
            line.append((GAP if j else "") + cell, "bold red" if i in column.alarming else "")
        line.rstrip()
        lines.append(line)
    return lines


@lru_cache(maxsize=1)
def _columns(standing: Standing, encoding: str) -> list[Column]:
    """The table of all layers: keys come more often than news does."""
    return layer_table.layer_columns(standing.layers, encoding)


def _footer(shown: Shown, width: int, page: int) -> Text:
    from rich.text import Text

    wishes, standing = shown.wishes, shown.standing
    if wishes.typing is not None:
        hint = "   (such as conv*/kernel !bias; Enter shows these, Esc goes back)"
        return Text.assemble(("/", "bold"), printable(wishes.typing), "_", (hint, "dim"))
    if shown.message:
        return Text(printable(shown.message), "bold red")
    parts = []
    if standing is not None and standing.layers:
        count = len(standing.layers)
        first = max(0, min(wishes.offset, count - page))
        last = min(first + page, count)
        parts.append(f"{first + 1:,} to {last:,} of {counted(count, 'layer')}")
    if wishes.patterns:
        parts.append(f"only {printable(' '.join(wishes.patterns))} (Esc: all)")
    line = Text.assemble((" · ".join(parts), "reverse"))
    for key, meaning in _KEYS:
        more = Text.assemble(GAP, (key, "bold"), " ", (meaning, "dim"))
        if line.cell_len + more.cell_len > width:
            break
        line.append_text(more)
    return line


def _fitting(line: Text, width: int | None, encoding: str) -> Text:
    if bars_for(encoding) != BARS:
        # As wide as before, so that columns stay where they are.
        line.plain = line.plain.translate(_ASCII)
    if width is not None:
        line.truncate(width, overflow="crop" if bars_for(encoding) != BARS else "ellipsis")
    return line


def facts_of(shown: Shown) -> dict[str, Any]:
    """The same as plain values, for JSON."""
    assert shown.standing is not None
    facts = dict(vars(shown.standing))
    facts["status"] = str(shown.standing.status)
    layers = shown.standing.layers
    facts["layers"] = [layers[i] for i in shown.wishes.ordered(layers)]
    facts["findings"] = [finding.facts() for finding in shown.findings or ()]
    return facts
