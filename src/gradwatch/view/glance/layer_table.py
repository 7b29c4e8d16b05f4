"""The table of layers, as `show` and `top` have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gradwatch.util import printable
from gradwatch.view.glance.layer_rows import without_root
from gradwatch.view.glance.text_columns import Column
from gradwatch.view.glance.trends import bars
from gradwatch.view.glance.words import compact, percent

LAYER, PARAMETERS, OVER_TIME = "layer", "params", "gradient over time"
GRADIENT, ZEROS, WEIGHT, UPDATE, OUTPUT = "grad L2", "zeros", "weight L2", "update/w", "output L2"
NOT_FINITE = "NaN/Inf"


def layer_columns(layers: Sequence[Mapping[str, Any]], encoding: str | None) -> list[Column]:
    """The columns that have anything in them.

    Args:
        layers: by `layers_of`.
        encoding: of the output, which may lack the small bars.
    """
    names = without_root([e["layer"] for e in layers])
    bad = frozenset(i for i, e in enumerate(layers) if e["nonfinite"])
    trends = [bars(e["gradient_trend"], encoding=encoding) for e in layers]
    columns = [
        Column(LAYER, [printable(n) for n in names], left=True, weight=0),
        Column(PARAMETERS, [f"{e['parameters']:,}" for e in layers], weight=3),
        Column(OVER_TIME, trends, left=True, weight=7),
        Column(GRADIENT, [compact(e["gradient_l2"]) for e in layers], weight=9),
        Column(ZEROS, [percent(e["gradient_zero_share"]) for e in layers], weight=4),
        Column(WEIGHT, [compact(e["weight_l2"]) for e in layers], weight=5),
        Column(UPDATE, [compact(e["update_ratio"]) for e in layers], weight=6),
        Column(OUTPUT, [compact(e["output_l2"]) for e in layers], weight=2),
        Column(NOT_FINITE, [f"{e['nonfinite']:,}" for e in layers], weight=8, alarming=bad),
    ]
    if not bad:
        columns.pop()
    return [c for c in columns if any(cell not in ("-", "") for cell in c.cells)]
