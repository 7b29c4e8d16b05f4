"""The table of layers that `show` and `top` print."""

from collections.abc import Mapping, Sequence
from typing import Any

from gradwatch.util import TextColumn, compact, percent, printable, without_root
from gradwatch.view.text.sparkline import trend_bars

LAYER, GRADIENT, ZEROS, WEIGHT, UPDATE = "layer", "grad L2", "zeros", "weight L2", "update/w"
NOT_FINITE = "NaN/Inf"


def layer_columns(layers: Sequence[Mapping[str, Any]], encoding: str | None) -> list[TextColumn]:
    """The columns of the table of `layer_rows`; empty ones are left out.

    An encoding may lack the small bars.
    """
    names = [printable(name) for name in without_root([e["layer"] for e in layers])]
    bad = frozenset(i for i, e in enumerate(layers) if e["nonfinite"])

    def numbers(header: str, field: str, weight: int) -> TextColumn:
        return TextColumn(header, [compact(e[field]) for e in layers], weight=weight)

    trends = [trend_bars(e["gradient_trend"], encoding=encoding) for e in layers]
    zeros = [percent(e["gradient_zero_share"]) for e in layers]
    counts = [f"{e['nonfinite']:,}" for e in layers]
    columns = [
        TextColumn(LAYER, names, left=True, weight=0),
        TextColumn("params", [f"{e['parameters']:,}" for e in layers], weight=3),
        TextColumn("gradient over time", trends, left=True, weight=7),
        numbers(GRADIENT, "gradient_l2", 9),
        TextColumn(ZEROS, zeros, weight=4),
        numbers(WEIGHT, "weight_l2", 5),
        numbers(UPDATE, "update_ratio", 6),
        numbers("output L2", "output_l2", 2),
        *[TextColumn(NOT_FINITE, counts, weight=8, alarms=bad)] * bool(bad),
    ]
    return [c for c in columns if any(cell not in ("-", "") for cell in c.cells)]
