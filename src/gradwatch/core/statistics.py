"""The table of statistics: numbers that follow from a `Summary`.

A statistic is one entry here, or one call of `add_statistic` in a module of your own. The columns
of the CSV and SQL tables, TensorBoard's tags, the command line's choices and the menus, labels,
units and scales of every view come from it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from gradwatch.core.kinds import Kind
from gradwatch.core.summary import FIELDS, Summary
from gradwatch.util import did_you_mean

Array = NDArray[np.float64]
Scale: TypeAlias = Literal["log", "signed", "linear"]

STATISTIC_SYNONYMS = {
    **dict.fromkeys(("norm", "l2_norm", "l2norm", "euclidean", "magnitude"), "l2"),
    **dict.fromkeys(("l1_norm", "abs", "absolute", "abs_sum", "sum_abs"), "l1"),
    **dict.fromkeys(("max_abs", "abs_max", "absmax", "inf_norm", "linf_norm"), "linf"),
    **dict.fromkeys(("var", "variance", "sd", "stddev", "standard_deviation", "sigma"), "std"),
    **dict.fromkeys(("avg", "average", "mu"), "mean"),
    **dict.fromkeys(("maximum", "largest"), "max"),
    **dict.fromkeys(("minimum", "smallest"), "min"),
    **dict.fromkeys(("zero", "sparsity", "zero_fraction"), "zeros"),
    **dict.fromkeys(("size", "elements", "numel", "n"), "count"),
    **dict.fromkeys(("ratio", "update_to_weight", "relative_update"), "update_ratio"),
    **dict.fromkeys(("last", "scalar", "number"), "value"),
}
"""Other names for statistics, for suggestions."""


@dataclass(frozen=True, eq=False)
class Statistic:
    """A number that follows from a summary.

    Attributes:
        name: in code, files and tags.
        fields: the fields of a `Summary` that it is computed from; only these are read.
        numpy: computes it; NaN where it is not defined. The fields may be arrays.
        sql: the same as an expression over the fields; NULL where it is not defined.
        label: what to call it in menus and titles.
        scale: how to show it: magnitudes on a logarithmic scale, signed numbers around 0,
            counts and shares on a linear one.
        unit: what it is in; None for the unit of the kind that it is a statistic of.
        is_count: whether it is a whole number.
        menu_order: its place in menus, smallest first.
    """

    name: str
    fields: tuple[str, ...]
    numpy: Callable[[Summary], Array]
    sql: str
    label: str
    scale: Scale = "log"
    unit: str | None = None
    is_count: bool = False
    menu_order: int = 100

    def __call__(self, summary: Summary) -> Array:
        return self.numpy(summary)


def finite(s: Summary) -> Array:
    """Number of finite elements."""
    return s.count - s.nan - s.posinf - s.neginf


def l2(s: Summary) -> Array:
    """Euclidean (Frobenius) norm of the finite elements."""
    return np.sqrt(s.sum_squares)


def linf(s: Summary) -> Array:
    """Largest absolute value of the finite elements; NaN without any."""
    return _defined(s, np.maximum(np.abs(s.min), np.abs(s.max)))


def mean(s: Summary) -> Array:
    """Mean of the finite elements; NaN without any."""
    return _per_element(s, s.sum)


def rms(s: Summary) -> Array:
    """Root mean square of the finite elements; NaN without any."""
    return np.sqrt(_per_element(s, s.sum_squares))


def std(s: Summary) -> Array:
    """Population standard deviation of the finite elements; NaN without any.

    It comes from the moments, so its absolute error is up to about 1e-8 times
    the RMS; a constant tensor gives exactly 0.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # See Summary on float64's largest.
        variance = _per_element(s, s.sum_squares) - mean(s) ** 2
    return np.where(s.min == s.max, 0.0, np.sqrt(np.maximum(variance, 0.0)))


def value(s: Summary) -> Array:
    """The value of a kind that is one number: NaN or infinite where it was."""
    values = np.where(s.nan > 0, np.nan, s.sum)
    return np.where(s.posinf > 0, np.inf, np.where(s.neginf > 0, -np.inf, values))


def _defined(s: Summary, values: Array) -> Array:
    return np.where(finite(s) > 0, values, np.nan)


def _per_element(s: Summary, values: Array) -> Array:
    n = finite(s)
    return np.where(n > 0, values / np.where(n > 0, n, 1.0), np.nan)


FINITE_FIELDS = ("count", "nan", "posinf", "neginf")
_FINITE = "(count - nan - posinf - neginf)"
_MEAN, _MEAN_SQUARE = f"sum / {_FINITE}", f"sum_squares / {_FINITE}"


def _if_finite(sql: str) -> str:
    return f"CASE WHEN {_FINITE} > 0 THEN {sql} END"


def _count(name: str, label: str, menu_order: int) -> Statistic:
    return Statistic(
        name,
        (name,),
        lambda s: getattr(s, name),
        name,
        label,
        "linear",
        "elements per step",
        True,
        menu_order,
    )


STATISTICS: dict[str, Statistic] = {
    each.name: each
    for each in (
        _count("count", "elements", 14),
        _count("nan", "NaN", 11),
        _count("posinf", "+Inf", 12),
        _count("neginf", "-Inf", 13),
        _count("zeros", "zeros", 10),
        Statistic("sum", ("sum",), lambda s: s.sum, "sum", "sum", "signed", menu_order=9),
        Statistic("l1", ("sum_abs",), lambda s: s.sum_abs, "sum_abs", "L1 norm", menu_order=4),
        Statistic("l2", ("sum_squares",), l2, "sqrt(sum_squares)", "L2 norm", menu_order=1),
        Statistic(
            "linf",
            (*FINITE_FIELDS, "min", "max"),
            linf,
            _if_finite("greatest(abs(min), abs(max))"),
            "largest magnitude",
            menu_order=3,
        ),
        Statistic(
            "rms",
            (*FINITE_FIELDS, "sum_squares"),
            rms,
            _if_finite(f"sqrt({_MEAN_SQUARE})"),
            "root mean square",
            menu_order=2,
        ),
        Statistic(
            "mean",
            (*FINITE_FIELDS, "sum"),
            mean,
            _if_finite(_MEAN),
            "mean",
            "signed",
            menu_order=5,
        ),
        Statistic(
            "std",
            (*FINITE_FIELDS, "sum", "sum_squares", "min", "max"),
            std,
            _if_finite(
                "CASE WHEN min = max THEN 0 ELSE "
                f"sqrt(greatest({_MEAN_SQUARE} - ({_MEAN}) * ({_MEAN}), 0)) END"
            ),
            "standard deviation",
            menu_order=6,
        ),
        Statistic(
            "min",
            (*FINITE_FIELDS, "min"),
            lambda s: _defined(s, s.min),
            _if_finite("min"),
            "minimum",
            "signed",
            menu_order=7,
        ),
        Statistic(
            "max",
            (*FINITE_FIELDS, "max"),
            lambda s: _defined(s, s.max),
            _if_finite("max"),
            "maximum",
            "signed",
            menu_order=8,
        ),
    )
}
"""The statistics of every tensor by their names, in the order of columns."""

VALUE = Statistic(
    "value",
    ("nan", "posinf", "neginf", "sum"),
    value,
    "CASE WHEN nan > 0 THEN 'nan'::DOUBLE WHEN posinf > 0 THEN 'inf'::DOUBLE "
    "WHEN neginf > 0 THEN '-inf'::DOUBLE ELSE sum END",
    "value",
    "signed",
)
"""The one statistic of a kind that is a number."""

UPDATE_RATIO = Statistic(
    "update_ratio",
    ("sum_squares",),
    l2,
    "sqrt(sum_squares)",
    "update / weight (L2 norms)",
    unit="",
    menu_order=0,
)
"""Of updates, the L2 norm relative to that of the weights, where both are recorded.

`numpy` and `sql` are what both are compared by."""


def add_statistic(statistic: Statistic) -> Statistic:
    """Add a statistic to the table.

    Raises:
        ValueError: the name is taken or is no lower-case identifier, a field does not exist or
            is not named, or there is no such scale.

    Example:

    >>> from gradwatch.core import STATISTICS, Statistic, Summary, add_statistic
    >>> energy = add_statistic(Statistic(
    ...     "energy", ("sum_squares",), lambda s: s.sum_squares, "sum_squares", "energy"))
    >>> float(energy(Summary.of([3.0, 4.0])))
    25.0
    >>> del STATISTICS["energy"]
    """
    name = statistic.name
    if name in (*STATISTICS, VALUE.name, UPDATE_RATIO.name, *FIELDS):
        raise ValueError(f"There is a statistic {name!r} already. Choose another name.")
    if not name.isidentifier() or name != name.lower():
        raise ValueError(f"A statistic's name is a lower-case identifier. Received: {name!r}")
    if unknown := [field for field in statistic.fields if field not in FIELDS]:
        raise ValueError(
            f"A summary has no {unknown[0]!r}. The fields of a statistic are among: "
            f"{', '.join(FIELDS)}"
        )
    if statistic.scale not in get_args(Scale):
        raise ValueError(
            f"scale is one of {', '.join(get_args(Scale))}. Received: {statistic.scale!r}"
        )
    _check_fields(statistic)
    STATISTICS[name] = statistic
    return statistic


def _check_fields(statistic: Statistic) -> None:
    """Raise unless the formula reads only the fields that it names."""
    whole = Summary.of([3.0, -4.0, 0.0])
    is_named = np.array([field in statistic.fields for field in FIELDS])
    named = Summary.unpack(np.where(is_named, whole.pack(), np.nan))
    with np.errstate(all="ignore"):
        if not np.array_equal(statistic(named), statistic(whole), equal_nan=True):
            raise ValueError(
                f"The formula of {statistic.name!r} reads a field that it does not name, and only "
                f"named fields are read. Received: fields={statistic.fields!r}"
            )


def statistics_of(kind: Kind) -> dict[str, Statistic]:
    if kind.is_number:
        return {**STATISTICS, VALUE.name: VALUE}
    if kind is Kind.UPDATE:
        return {**STATISTICS, UPDATE_RATIO.name: UPDATE_RATIO}
    return dict(STATISTICS)


def statistic(name: str, summary: Summary) -> Array:
    try:
        return STATISTICS[name](summary)
    except KeyError:
        hint = did_you_mean(name, STATISTICS, STATISTIC_SYNONYMS)
        raise ValueError(
            f"There is no statistic {name!r}. {hint}Choose from: {', '.join(STATISTICS)}"
        ) from None
