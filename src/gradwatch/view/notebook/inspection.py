"""An inspection as HTML."""

import math

from gradwatch.core import STATISTICS, shown
from gradwatch.inspection import HEADER, LEFT, Inspection, cells, remarks, title
from gradwatch.view.notebook import markup, svg


def inspection_html(inspection: Inspection) -> str:
    """The table, with the norm of each gradient as a bar on a logarithmic scale."""
    norms = [
        math.nan if entry.summary is None else float(shown(STATISTICS["l2"], entry.summary))
        for entry in inspection.entries
    ]
    rows = [[markup.text(cell) for cell in row] for row in cells(inspection)]
    # The last row, for all weights together, has no bar.
    bars = [*_bars(norms), ""][: len(rows)]
    header = [HEADER[0], "L2, logarithmic", *HEADER[1:]]
    body = [[name, bar, *rest] for (name, *rest), bar in zip(rows, bars, strict=True)]
    left = frozenset({0, 1, *(i + 1 for i in LEFT if i > 0)})
    return markup.whole(
        markup.line(f"<b>{markup.text(title(inspection))}</b>"),
        markup.table(header, body, left),
        *(markup.line(markup.text(remark)) for remark in remarks(inspection)),
    )


def _bars(norms: list[float]) -> list[str]:
    known = [math.log10(norm) for norm in norms if norm > 0 and math.isfinite(norm)]
    # From a decade below the smallest, so that its bar is visible; at least a factor of 100.
    low, high = (min(known) - 1.0, max(known)) if known else (0.0, 1.0)
    low = min(low, high - 2.0)
    return [
        svg.bar((math.log10(norm) - low) / (high - low), f"L2 {norm:.4g}")
        if norm > 0 and math.isfinite(norm)
        else ""
        for norm in norms
    ]
