"""HTML without scripts and external resources, with every name escaped."""

import html
from collections.abc import Sequence

from gradwatch.util import printable, shortened

_CELL = "padding:2px 8px;text-align:{side};white-space:nowrap"
SEVERITIES = {"error": "#c4342b", "warning": "#b07100", "info": "#2f7f93"}
GOOD, MUTED = "#23945a", "opacity:0.7"


def text(words: object, max_width: int | None = None) -> str:
    """Escaped text, with control characters and direction marks spelled out."""
    shown = printable(str(words))
    return html.escape(shown if max_width is None else shortened(shown, max_width))


def table(header: Sequence[str], rows: Sequence[Sequence[str]], left: frozenset[int]) -> str:
    """A table of cells that are markup; columns in `left` are aligned to the left."""

    def row(cells: Sequence[str], tag: str) -> str:
        return "".join(
            f'<{tag} style="{_CELL.format(side="left" if i in left else "right")}">{cell}</{tag}>'
            for i, cell in enumerate(cells)
        )

    body = "".join(f"<tr>{row(cells, 'td')}</tr>" for cells in rows)
    return f"<table><thead><tr>{row(header, 'th')}</tr></thead><tbody>{body}</tbody></table>"


def coloured(words: str, colour: str) -> str:
    """Text in a colour that is visible on a light and a dark background."""
    return f'<span style="color:{colour};font-weight:600">{text(words)}</span>'


def line(*parts: str, style: str = "") -> str:
    """A line of pieces that are markup."""
    return f'<div style="margin:2px 0;{style}">{" ".join(parts)}</div>'


def opened_by(summary: str, *parts: str, style: str = "") -> str:
    """Pieces that are markup, which a click on the summary shows."""
    return f'<details style="{style}"><summary>{text(summary)}</summary>{"".join(parts)}</details>'


def whole(*parts: str) -> str:
    """The whole display."""
    return f'<div style="font-size:13px;line-height:1.45">{"".join(parts)}</div>'
