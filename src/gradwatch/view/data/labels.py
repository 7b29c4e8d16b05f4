"""Kinds and statistics for menus: their labels, units and scales."""

from gradwatch.core import KINDS, STATISTICS, UPDATE_RATIO, Kind
from gradwatch.view.data.plain import Answer


def tensor_kinds() -> list[Kind]:
    """The kinds that have a heatmap, the one to show first first."""
    return [kind for kind in KINDS.values() if not kind.is_number]


def menu_of(kind: Kind, *, with_ratio: bool) -> list[Answer]:
    """The statistics that a kind can be shown in, the best first.

    `with_ratio` says whether weights are there to compare updates with.
    """
    if kind.shown_as:
        return [
            {"name": name, "label": label, "unit": unit, "scale": "linear"}
            for name, (label, unit) in kind.shown_as.items()
        ]
    best = kind.default_statistic
    chosen = sorted(STATISTICS.values(), key=lambda each: (each.name != best, each.menu_order))
    if kind is Kind.UPDATE and with_ratio:
        chosen.insert(0, UPDATE_RATIO)
    return [
        {
            "name": each.name,
            "label": each.label,
            "unit": kind.unit if each.unit is None else each.unit,
            "scale": each.scale,
        }
        for each in chosen
    ]
