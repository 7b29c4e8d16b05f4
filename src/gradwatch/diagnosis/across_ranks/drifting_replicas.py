"""Copies of the weights that are no longer the same on all ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from gradwatch.core import Kind, ModelFacts, Site
from gradwatch.diagnosis.across_ranks.rank_rule import (
    RankData,
    RankSymptom,
    in_words,
    of_one_training,
    rank_rule,
)
from gradwatch.diagnosis.finding import Severity
from gradwatch.diagnosis.limits import Limits
from gradwatch.diagnosis.rule import Threshold

# What is the same, bit for bit, where all weights are and so is the hardware. The sums are of
# float64's precision where these rows are recorded, and added up in the same order.
_EXACT = ("count", "nan", "posinf", "neginf", "zeros", "sum", "min", "max")
_SIZES = ("sum", "min", "max", "l2")
_HALF = ("float16", "bfloat16")


def _is_named(name: str) -> str:
    return f"(path = '{name}' OR path LIKE '%/{name}')"


_CHECKS = f"""
    told AS (SELECT part_of, rank, step, writer, attempt, max(time) AS time,
        max("sum") FILTER ({_is_named("replica_of")}) AS copy,
        max("sum") FILTER ({_is_named("replica_hardware")}) AS hardware
        FROM summaries WHERE kind = 'scalar'
        AND ({_is_named("replica_of")} OR {_is_named("replica_hardware")})
        GROUP BY part_of, rank, step, writer, attempt),
    checks AS ({of_one_training("told")}),
    weights AS (SELECT s.*, c.copy, c.hardware FROM summaries s
        JOIN checks c USING (part_of, rank, step, writer, attempt)
        WHERE s.kind = 'weight' AND s.micro_batch IS NULL)"""
"""The weights that ranks have recorded to be compared."""


@rank_rule(
    "drifting-replicas",
    severity=Severity.ERROR,
    remedy=(
        "Every rank must have the same weights, and averages gradients with the others' as if it "
        "had. If all differ, gradients are not averaged: call the DistributedDataParallel itself, "
        "not its .module, step outside of no_sync(), and change weights on all ranks alike. If one "
        "does, suspect its memory or processor: restart from a checkpoint without that machine. "
        "Ranks must also begin to be watched at the same step."
    ),
    thresholds={
        "relative difference": Threshold(
            1e-6, "more than rounding explains is an error; less, on like hardware, a warning"
        ),
        "on unlike hardware": Threshold(
            1e-3, "rounding differs there, by one unit a step: 6e-8 times the root of the steps"
        ),
        "on unlike hardware, in half precision": Threshold(
            0.1, "there a unit is 4e-3, and now and then a weight is rounded to another one"
        ),
    },
)
def drifting_replicas(ranks: RankData, facts: ModelFacts, limits: Limits) -> Iterator[RankSymptom]:
    """Weights that must be the same on all ranks are not."""
    is_half = any(info.dtype in _HALF for info in ranks.run.infos if info.kind is Kind.WEIGHT)
    tolerance = limits["on unlike hardware" + ", in half precision" * is_half]
    first: dict[tuple[str, float], list[_Tensor]] = {}
    for row in ranks.ask(_differing(tolerance)):
        tensor = _Tensor(*row)
        first.setdefault((tensor.group, tensor.copy), []).append(tensor)
    place = {site.path: i for i, site in enumerate(ranks.run.sites(Kind.WEIGHT))} if first else {}
    for tensors in first.values():
        tensors.sort(key=lambda tensor: place.get(tensor.path, len(place)))
        yield _symptom(ranks, tensors, tolerance, limits)


class _Tensor(NamedTuple):
    """A tensor that differs, at the first step at which any of its group does."""

    group: str
    copy: float
    path: str
    step: int
    last: int
    ranks: int
    are_unlike: bool
    difference: float


class _Copy(NamedTuple):
    """What a rank has of a tensor."""

    rank: int
    exact: tuple[float | None, ...]
    sizes: tuple[float, ...]


def _differing(tolerance: float) -> str:
    """The tensors that differ at the first step at which any does; NULL is no number."""
    exact = " OR ".join(f'min("{name}") IS DISTINCT FROM max("{name}")' for name in _EXACT)
    gaps = ", ".join(f'coalesce(max("{name}") - min("{name}"), 0)' for name in _SIZES)
    counts = " OR ".join(f'min("{name}") <> max("{name}")' for name in ("count", "nan", "posinf"))
    return f"""
        WITH {_CHECKS},
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
    is_told = 0 < len(others) < len(copies) / 2
    numbers = [copy.rank for copy in copies]
    if is_told:
        rest = len(copies) - len(others)
        title = f"The weights of {in_words(others)} differ from those of the other {rest} ranks"
    else:
        title = f"The weights of {in_words(numbers)} differ from each other"
    odd = next((copy for copy in copies if copy.rank in others), copies[-1])
    largest = max(tensor.difference for tensor in tensors)
    alike, last, compared = _course(ranks, first)
    is_large = largest > limits["relative difference"] or any(
        a != b for a, b in zip(odd.exact[:4], usual.exact[:4], strict=True)
    )
    return RankSymptom(
        title=f"{title}, first in {first.path}.",
        evidence={
            **({"rank": others[0]} if is_told and len(others) == 1 else {}),
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
    rows = ranks.ask(
        f"WITH {_CHECKS} SELECT rank, {columns} FROM weights "
        "WHERE part_of = ? AND copy = ? AND path = ? AND step = ? ORDER BY rank",
        tensor.group,
        tensor.copy,
        tensor.path,
        tensor.step,
    )
    cut = len(_EXACT) + 1
    return [_Copy(r[0], r[1:cut], tuple(float(x or 0.0) for x in r[cut:])) for r in rows]


def _minority(copies: Sequence[_Copy], tolerance: float) -> tuple[list[int], _Copy]:
    """The ranks whose copies are unlike what most have, and one of those that are like it."""
    common = Counter(copy.exact for copy in copies).most_common(1)[0][0]
    usual = next(copy for copy in copies if copy.exact == common)
    if tolerance:
        usual = sorted(copies, key=lambda copy: copy.sizes[0])[(len(copies) - 1) // 2]
    return [copy.rank for copy in copies if _is_unlike(copy, usual, tolerance)], usual


def _is_unlike(copy: _Copy, usual: _Copy, tolerance: float) -> bool:
    if not tolerance:
        return copy.exact != usual.exact
    gap = max(abs(a - b) for a, b in zip(copy.sizes, usual.sizes, strict=True))
    return gap > tolerance * (usual.sizes[-1] or 1.0) or copy.exact[:4] != usual.exact[:4]


def _course(ranks: RankData, tensor: _Tensor) -> tuple[int | None, int, int]:
    """The last check before at which all were alike, the last one at all, and tensors compared."""
    rows: list[tuple[Any, ...]] = ranks.ask(
        f"WITH {_CHECKS}, compared AS (SELECT path, step FROM weights "
        "WHERE part_of = ? AND copy = ? GROUP BY path, step HAVING count(*) > 1) "
        "SELECT max(step) FILTER (step < ?), max(step), count(*) FILTER (step = ?) FROM compared",
        tensor.group,
        tensor.copy,
        tensor.step,
        tensor.step,
    )
    alike, last, compared = rows[0]
    return alike, last, compared
