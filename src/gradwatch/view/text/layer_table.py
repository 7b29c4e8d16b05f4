"""The table of layers that `show` and `top` print."""

from collections.abc import Mapping, Sequence
from typing import Any

from gradwatch.util import TextColumn, printable, without_root
from gradwatch.util.fold_names import NameFold, fold_names
from gradwatch.util.folded_cells import cell_of, outliers
from gradwatch.view.text.sparkline import trend_bars

LAYER, GRADIENT, ZEROS, WEIGHT, UPDATE = "layer", "grad L2", "zeros", "weight L2", "update/w"
NOT_FINITE = "NaN/Inf"
Layers = Sequence[Mapping[str, Any]]


def layer_columns(
    layers: Layers, encoding: str | None, max_rows: int | None = None
) -> list[TextColumn]:
    """The columns of the table of `layer_rows`; empty ones are left out.

    More layers than `max_rows` are folded into ranges. The bars of a range are those of the layer
    that is named. An encoding may lack the small bars.
    """
    names = [printable(name) for name in without_root([e["layer"] for e in layers])]
    folds = [NameFold(name, [i]) for i, name in enumerate(names)]
    if max_rows is not None:
        folds = fold_names(names, max_rows)
    chosen = outliers([e["gradient_l2"] for e in layers], folds)

    def totals(field: str) -> list[int]:
        return [sum(layers[i][field] for i in fold.members) for fold in folds]

    def numbers(header: str, field: str, weight: int, is_share: bool = False) -> TextColumn:
        values = ([layers[i][field] for i in fold.members] for fold in folds)
        cells = [cell_of(own, is_share=is_share) for own in values]
        return TextColumn(header, cells, weight=weight)

    trends = [trend_bars(layers[i]["gradient_trend"], encoding=encoding) for i in chosen]
    named = [
        fold.part(names[i]) if len(fold.members) > 1 else ""
        for fold, i in zip(folds, chosen, strict=True)
    ]
    counts = totals("nonfinite")
    bad = frozenset(i for i, count in enumerate(counts) if count)
    columns = [
        TextColumn(LAYER, [fold.label for fold in folds], left=True, weight=0),
        TextColumn("params", [f"{count:,}" for count in totals("parameters")], weight=3),
        TextColumn("gradient over time", trends, left=True, weight=7),
        TextColumn("outlier", named, left=True, weight=6),
        numbers(GRADIENT, "gradient_l2", 9),
        numbers(ZEROS, "gradient_zero_share", 4, is_share=True),
        numbers(WEIGHT, "weight_l2", 5),
        numbers(UPDATE, "update_ratio", 6),
        numbers("output L2", "output_l2", 2),
        *[TextColumn(NOT_FINITE, [f"{n:,}" for n in counts], weight=8, alarms=bad)] * bool(bad),
    ]
    return [c for c in columns if any(cell not in ("-", "") for cell in c.cells)]
