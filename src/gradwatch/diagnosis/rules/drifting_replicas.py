"""Copies of the weights that are no longer the same on all ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gradwatch.core import Kind, ModelFacts, Site
from gradwatch.diagnosis.finding import Severity
from gradwatch.diagnosis.rank_rule import (
    RankData,
    RankSymptom,
    enumerate_ranks,
    of_one_training,
    path_is,
    rank_rule,
)
from gradwatch.diagnosis.rule import Limits, Threshold

# On like hardware, equal weights have bit-identical statistics: the sums are computed in float64,
# in the same order.
_EXACT = ("count", "nan", "posinf", "neginf", "zeros", "sum", "min", "max")
_SIZES = ("sum", "min", "max", "l2")
_HALF = ("float16", "bfloat16")

_WEIGHTS = f"""
    marks AS (SELECT part_of, rank, step, writer, attempt, max(time) AS time,
        max("sum") FILTER ({path_is("replica_of")}) AS copy,
        max("sum") FILTER ({path_is("replica_hardware")}) AS hardware
        FROM summaries WHERE kind = 'scalar'
        AND ({path_is("replica_of")} OR {path_is("replica_hardware")})
        GROUP BY part_of, rank, step, writer, attempt),
    checks AS ({of_one_training("marks")}),
    weights AS (SELECT s.*, c.copy, c.hardware FROM summaries s
        JOIN checks c USING (part_of, rank, step, writer, attempt)
        WHERE s.kind = 'weight' AND s.micro_batch IS NULL)"""
"""The weights that ranks have recorded for comparison."""


@rank_rule(
    "drifting-replicas",
    severity=Severity.ERROR,
    remedy=(
        "Every rank must have the same weights. If all differ, gradients are not averaged: call "
        "the DistributedDataParallel itself, not its .module, step outside of no_sync(), and "
        "change weights on all ranks alike. If one differs, suspect its memory or processor: "
        "restart from a checkpoint without that machine. Start watching at the same step on all "
        "ranks."
    ),
    thresholds={
        "relative difference": Threshold(
            1e-6, "above rounding it is an error; below, on like hardware, a warning"
        ),
        "on unlike hardware": Threshold(
            1e-3, "rounding differs there in each step: 6e-8 times the root of the steps"
        ),
        "on unlike hardware, in half precision": Threshold(
            0.1, "rounding there is 4e-3, and now and then a weight is rounded to the next number"
        ),
    },
)
def drifting_replicas(ranks: RankData, facts: ModelFacts, limits: Limits) -> Iterator[RankSymptom]:
    """Weights that must be the same on all ranks differ."""
    is_half = any(info.dtype in _HALF for info in ranks.run.infos if info.kind is Kind.WEIGHT)
    tolerance = limits["on unlike hardware" + ", in half precision" * is_half]
    first: dict[tuple[str, float], list[_Tensor]] = {}
    for row in ranks.query(_differing(tolerance)):
        tensor = _Tensor(*row)
        first.setdefault((tensor.group, tensor.copy), []).append(tensor)
    place = {site.path: i for i, site in enumerate(ranks.run.sites(Kind.WEIGHT))} if first else {}
    for tensors in first.values():
        tensors.sort(key=lambda tensor: place.get(tensor.path, len(place)))
        yield _symptom(ranks, tensors, tolerance, limits)


class _Tensor(NamedTuple):
    """A tensor that differs, at the first step at which any tensor of its group does."""

    group: str
    copy: float
    path: str
    step: int
    last: int
    ranks: int
    are_unlike: bool
    difference: float


class _Copy(NamedTuple):
    rank: int
    exact: tuple[float | None, ...]
    sizes: tuple[float, ...]


def _differing(tolerance: float) -> str:
    """The tensors that differ at the first step at which any does."""
    exact = " OR ".join(f'min("{name}") IS DISTINCT FROM max("{name}")' for name in _EXACT)
    gaps = ", ".join(f'coalesce(max("{name}") - min("{name}"), 0)' for name in _SIZES)
    counts = " OR ".join(f'min("{name}") <> max("{name}")' for name in ("count", "nan", "posinf"))
    return f"""
        WITH {_WEIGHTS},
        differing AS (SELECT part_of, copy, path, step, count(*) AS ranks,
            min(hardware) <> max(hardware) AS unlike,
            greatest({gaps}) / coalesce(nullif(max(l2), 0), 1) AS difference
            FROM weights GROUP BY part_of, copy, path, step
            HAVING count(*) > 1 AND ({exact})
            AND (min(hardware) = max(hardware) OR difference > {tolerance} OR {counts}))
        SELECT part_of, copy, path, step, latest, ranks, unlike, difference FROM (
            SELECT *, min(step) OVER (PARTITION BY part_of, copy) AS earliest,
            max(step) OVER (PARTITION BY part_of, copy) AS latest FROM differing)
        WHERE step = earliest ORDER BY part_of, copy"""


def _symptom(
    ranks: RankData, tensors: Sequence[_Tensor], tolerance: float, limits: Limits
) -> RankSymptom:
    first = tensors[0]
    copies = _copies(ranks, first)
    others, usual = _minority(copies, tolerance if first.are_unlike else 0.0)
    has_majority = 0 < len(others) < len(copies) / 2
    if has_majority:
        rest = f"those of the other {len(copies) - len(others)} ranks"
        title = f"The weights of {enumerate_ranks(others)} differ from {rest}"
    else:
        numbers = [copy.rank for copy in copies]
        title = f"The weights of {enumerate_ranks(numbers)} differ from each other"
    odd = next((copy for copy in copies if copy.rank in others), copies[-1])
    largest = max(tensor.difference for tensor in tensors)
    alike, last, compared = _course(ranks, first)
    is_large = largest > limits["relative difference"] or odd.exact[:4] != usual.exact[:4]
    return RankSymptom(
        title=f"{title}, first in {first.path}.",
        evidence={
            **({"rank": others[0]} if has_majority and len(others) == 1 else {}),
            "relative difference": first.difference,
            "largest relative difference": largest,
            "sums differ by": abs(odd.sizes[0] - usual.sizes[0]),
            "L2 norm": usual.sizes[-1],
            "tensors that differ": len(tensors),
            "tensors compared": compared,
            "ranks compared": len(copies),
            **({} if alike is None else {"last alike step": alike}),
        },
        sites=[Site(Kind.WEIGHT, tensor.path) for tensor in tensors],
        layer=Site(Kind.WEIGHT, first.path).layer,
        since=first.step,
        severity=Severity.ERROR if is_large else Severity.WARNING,
        until=first.last if first.last < last else None,
        about=f"{first.copy:g}",
        group=first.group,
    )


def _copies(ranks: RankData, tensor: _Tensor) -> list[_Copy]:
    columns = ", ".join(f'"{name}"' for name in (*_EXACT, *_SIZES))
    query = (
        f"WITH {_WEIGHTS} SELECT rank, {columns} FROM weights "
        "WHERE part_of = ? AND copy = ? AND path = ? AND step = ? ORDER BY rank"
    )
    rows = ranks.query(query, tensor.group, tensor.copy, tensor.path, tensor.step)
    cut = len(_EXACT) + 1
    return [_Copy(r[0], r[1:cut], tuple(float(x or 0.0) for x in r[cut:])) for r in rows]


def _minority(copies: Sequence[_Copy], tolerance: float) -> tuple[list[int], _Copy]:
    """The ranks whose copies differ from the usual one, and the usual one."""
    common = Counter(copy.exact for copy in copies).most_common(1)[0][0]
    usual = next(copy for copy in copies if copy.exact == common)
    if tolerance:
        usual = sorted(copies, key=lambda copy: copy.sizes[0])[(len(copies) - 1) // 2]
    return [copy.rank for copy in copies if _differs(copy, usual, tolerance)], usual


def _differs(copy: _Copy, usual: _Copy, tolerance: float) -> bool:
    if not tolerance:
        return copy.exact != usual.exact
    gap = max(abs(a - b) for a, b in zip(copy.sizes, usual.sizes, strict=True))
    return gap > tolerance * (usual.sizes[-1] or 1.0) or copy.exact[:4] != usual.exact[:4]


def _course(ranks: RankData, tensor: _Tensor) -> tuple[int | None, int, int]:
    """The last step with equal copies before, the last compared step, and the tensors compared."""
    query = (
        f"WITH {_WEIGHTS}, compared AS (SELECT path, step FROM weights "
        "WHERE part_of = ? AND copy = ? GROUP BY path, step HAVING count(*) > 1) "
        "SELECT max(step) FILTER (step < ?), max(step), count(*) FILTER (step = ?) FROM compared"
    )
    parameters = tensor.group, tensor.copy, tensor.step, tensor.step
    ((alike, last, compared),) = ranks.query(query, *parameters)
    return alike, last, compared
