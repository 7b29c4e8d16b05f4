"""What `top` shows at a moment, as a screen, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TextIO

from gradwatch.diagnosis import Finding
from gradwatch.util import TextColumn, counted, encodable, printable
from gradwatch.util.text_table import GAP, fit, has_colours, plain_lines, rendered, styled
from gradwatch.view.data import RunProgress
from gradwatch.view.terminal.header import FINDINGS, header_lines
from gradwatch.view.terminal.view_options import NETWORK, ORDERS, ViewOptions
from gradwatch.view.text import layer_columns

if TYPE_CHECKING:
    from rich.text import Text

# As many as there is room for, in this order.
_KEYS = [("q", "quit"), ("/", "filter"), ("↑↓", "scroll"), ("r", "reverse")]
_KEYS += [(key, order) for order, (key, _, _) in ORDERS.items()]


@dataclass(frozen=True)
class TopFrame:
    """What is known at a moment, and what of it to show.

    `progress` and `findings` are None before they are known; `now` is in seconds since 1970.
    `message` is an error to show, such as a wrong filter.
    """

    progress: RunProgress | None
    findings: Sequence[Finding] | None
    view: ViewOptions
    message: str = ""
    encoding: str = "utf-8"
    now: float | None = None

    def header(self, width: int | None, height: int | None) -> list[Text]:
        """The lines above the table; a low screen has fewer findings."""
        return header_lines(
            self.progress,
            self.findings,
            encoding=self.encoding,
            now=self.now,
            most_findings=None if height is None else max(1, min(FINDINGS, (height - 10) // 4)),
            width=width,
        )

    def can_show(self, text: str) -> bool:
        """Whether the encoding has these characters."""
        return encodable(text, self.encoding) == text

    def page(self, width: int, height: int) -> int:
        """The number of layers that fit the screen."""
        return max(1, height - len(self.header(width, height)) - 2)


def screen(frame: TopFrame, stream: TextIO, width: int, height: int) -> list[str]:
    """The lines that the terminal is sent: as many as it is high, none wider than it is."""
    from rich.console import Group

    page = frame.page(width, height)
    parts: list[Any] = frame.header(width, height)
    if frame.progress is not None:
        parts.append(styled(_table(frame, width, page)))
    footer = _footer(frame, width, page)
    for line in (*parts[: len(parts) - (frame.progress is not None)], footer):
        line.plain = encodable(line.plain, frame.encoding)
        line.no_wrap, line.overflow = True, "ellipsis" if frame.can_show("…") else "crop"
    lines = rendered(Group(*parts), stream, width).split("\n")[: height - 1]
    lines += [""] * (height - 1 - len(lines))
    return [*lines, rendered(Group(footer), stream, width).removesuffix("\n")]


def frame_text(frame: TopFrame, stream: TextIO, width: int | None) -> str:
    """Everything at once, for an output that does not scroll; not cut if `width` is None."""
    lines = frame.header(width, None)
    columns = [] if frame.progress is None else _table(frame, width, None)
    if has_colours(stream):
        from rich.console import Group

        return rendered(Group(*lines, styled(columns)), stream, width)
    plain = [*(line.plain.rstrip() for line in lines), *plain_lines(columns)]
    return encodable("".join(f"{line}\n" for line in plain), frame.encoding)


def frame_facts(frame: TopFrame) -> dict[str, Any]:
    """The same for JSON."""
    assert frame.progress is not None
    layers = frame.progress.layers
    return {
        **vars(frame.progress),
        "status": str(frame.progress.status),
        "health": frame.progress.health(frame.findings).facts(),
        "layers": [layers[i] for i in frame.view.ordered(layers)],
        "findings": [finding.facts() for finding in frame.findings or ()],
    }


def _table(frame: TopFrame, width: int | None, page: int | None) -> list[TextColumn]:
    """The visible rows of the table of layers; `page` is None for all rows."""
    progress, view = frame.progress, frame.view
    assert progress is not None
    if not progress.layers:
        return [TextColumn(_without_layers(progress, view), [], left=True)]
    order = view.ordered(progress.layers)
    if page is not None:
        offset = max(0, min(view.offset, len(order) - page))
        order = order[offset : offset + page]
    columns = [column.take(order) for column in _columns(progress, frame.encoding)]
    if view.order != NETWORK or view.reverse:
        mark, sorted_by = "▲" if view.reverse else "▼", ORDERS[view.order][1]
        columns = [
            replace(c, header=f"{c.header} {mark}") if c.header == sorted_by else c for c in columns
        ]
    columns = fit(columns, width)
    if frame.can_show("…▲▼"):
        return columns
    names = [encodable(name, frame.encoding) for name in columns[0].cells]
    columns[0] = replace(columns[0], cells=names)
    return [replace(c, header=encodable(c.header, frame.encoding)) for c in columns]


@lru_cache(maxsize=1)
def _columns(progress: RunProgress, encoding: str) -> list[TextColumn]:
    """The table of all layers, which changes less often than keys are pressed."""
    return layer_columns(progress.layers, encoding)


def _without_layers(progress: RunProgress, view: ViewOptions) -> str:
    if view.patterns and progress.all_layers:
        patterns = printable(" ".join(view.patterns))
        return f"{patterns} selects none of {counted(progress.all_layers, 'layer')}."
    return "No layer has been measured yet."


def _footer(frame: TopFrame, width: int, page: int) -> Text:
    from rich.text import Text

    view, progress = frame.view, frame.progress
    if view.typing is not None:
        hint = "   (for example conv*/kernel !bias; Enter to filter, Esc to go back)"
        return Text.assemble(("/", "bold"), printable(view.typing), "_", (hint, "dim"))
    if frame.message:
        return Text(printable(frame.message), "bold red")
    parts = []
    if progress is not None and progress.layers:
        count = len(progress.layers)
        first = max(0, min(view.offset, count - page))
        parts.append(f"{first + 1:,} to {min(first + page, count):,} of {counted(count, 'layer')}")
    if view.patterns:
        parts.append(f"only {printable(' '.join(view.patterns))} (Esc: all)")
    line = Text.assemble((" · ".join(parts), "reverse"))
    for key, meaning in _KEYS:
        more = Text.assemble(GAP, (key, "bold"), " ", (meaning, "dim"))
        if line.cell_len + more.cell_len > width:
            break
        line.append_text(more)
    return line
