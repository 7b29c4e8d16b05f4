"""Kinds and statistics in plain words, with their units and scales."""

from __future__ import annotations

from gradwatch.core import Kind
from gradwatch.read import UPDATE_RATIO
from gradwatch.view.data.plain import Answer

ORDER = (
    Kind.GRADIENT,
    Kind.APPLIED_GRADIENT,
    Kind.UPDATE,
    Kind.WEIGHT,
    Kind.OUTPUT,
    Kind.OUTPUT_GRADIENT,
    Kind.DEAD_UNIT,
    Kind.SATURATED,
    Kind.INPUT,
    Kind.TARGET,
)
"""The kinds that have a heatmap, the one to show first first."""

_KINDS = {
    Kind.DEAD_UNIT: "dead units",
    Kind.SATURATED: "saturated outputs",
    Kind.INPUT: "input batch",
    Kind.TARGET: "target batch",
}
_UNITS = {
    Kind.GRADIENT: "loss per unit of weight",
    Kind.APPLIED_GRADIENT: "loss per unit of weight",
    Kind.OUTPUT_GRADIENT: "loss per unit of output",
    Kind.UPDATE: "change per step",
}
_LABELS = {
    UPDATE_RATIO: "update / weight (L2 norms)",
    "l2": "L2 norm",
    "rms": "root mean square",
    "linf": "largest magnitude",
    "l1": "L1 norm",
    "mean": "mean",
    "std": "standard deviation",
    "min": "minimum",
    "max": "maximum",
    "sum": "sum",
    "zeros": "zeros",
    "nan": "NaN",
    "posinf": "+Inf",
    "neginf": "-Inf",
    "count": "elements",
}
_SIGNED = frozenset({"mean", "min", "max", "sum"})
_COUNTS = frozenset({"zeros", "nan", "posinf", "neginf", "count"})
_SHARES = {
    Kind.DEAD_UNIT: ("share of units that are dead", "number of dead units", "units"),
    Kind.SATURATED: ("share of outputs that are saturated", "number of saturated outputs", ""),
}


def kind_label(kind: Kind) -> str:
    """What to call a kind.

    >>> from gradwatch import Kind
    >>> from gradwatch.view.data.labels import kind_label
    >>> kind_label(Kind.APPLIED_GRADIENT)
    'applied gradient'
    """
    return _KINDS.get(kind, str(kind).replace("_", " "))


def statistics_of(kind: Kind, *, with_ratio: bool) -> list[Answer]:
    """The statistics that a kind can be shown in, the best first.

    Args:
        kind: what was measured.
        with_ratio: whether weights are there to compare updates with.
    """
    if kind in _SHARES:
        share, number, unit = _SHARES[kind]
        return [
            _about("mean", share, "share", "linear"),
            _about("sum", number, unit or "outputs", "linear"),
        ]
    names = [name for name in _LABELS if name != UPDATE_RATIO]
    if kind is Kind.UPDATE and with_ratio:
        names.insert(0, UPDATE_RATIO)
    return [_of(kind, name) for name in names]


def _of(kind: Kind, name: str) -> Answer:
    if name in _COUNTS:
        return _about(name, _LABELS[name], "elements per step", "linear")
    unit = "" if name == UPDATE_RATIO else _UNITS.get(kind, "")
    return _about(name, _LABELS[name], unit, "signed" if name in _SIGNED else "log")


def _about(name: str, label: str, unit: str, scale: str) -> Answer:
    return {"name": name, "label": label, "unit": unit, "scale": scale}
