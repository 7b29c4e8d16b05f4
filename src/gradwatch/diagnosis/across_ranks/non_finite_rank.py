"""NaN or Inf on one rank while the others are finite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

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
from gradwatch.diagnosis.network_order import BACKWARD, PHASES, moment_of

_CHUNKS = (4, 16, 64, 256)
"""Of the steps at which anything is not finite, so many are looked at, until one is found."""
# Minus infinity in outputs is how masks are made.
_IS_BAD = "(nan + posinf + CASE WHEN kind = 'output' THEN 0 ELSE neginf END > 0)"
_LASTING = (Kind.LOSS, Kind.GRADIENT, Kind.APPLIED_GRADIENT, Kind.UPDATE, Kind.WEIGHT)


def _listed(kinds: Sequence[Kind]) -> str:
    return ", ".join(f"'{kind}'" for kind in kinds)


_ROWS = f"""SELECT *, {_IS_BAD} AS bad,
    regexp_replace(path, '(^|/)replica_[0-9]+/', '\\1') AS place,
    regexp_replace(part_of, '(^|/)replica_[0-9]+$', '') AS main, replica IS NULL AS whole
    FROM summaries WHERE micro_batch IS NULL AND kind IN ({_listed(tuple(PHASES))})"""
"""What may be NaN; a replica's own is at the place that it has in the whole."""


@rank_rule(
    "non-finite-rank",
    severity=Severity.ERROR,
    thresholds={},
)
def non_finite_rank(ranks: RankData, facts: ModelFacts, limits: Limits) -> Iterator[RankSymptom]:
    """A NaN or Inf on some ranks, or replicas, that others do not have at the same step."""
    found: set[str] = set()
    at = 0
    for size in _CHUNKS:
        steps = [row[0] for row in ranks.ask(_BAD_STEPS, size - at, at)]
        at = size
        if not steps:
            return
        for group, step in ranks.ask(_first_alone(steps)):
            if group not in found:
                symptom = _symptom(ranks, group, step)
                if symptom is not None:
                    found.add(group)
                    yield symptom
        if found:
            return


_BAD_STEPS = f"SELECT DISTINCT step FROM ({_ROWS}) WHERE bad ORDER BY step LIMIT ? OFFSET ?"


def _alone(steps: Sequence[int]) -> str:
    """What is bad on some, and not on others, of the ranks and replicas that have it at a step."""
    chosen = f"SELECT * FROM ({_ROWS}) WHERE step IN ({', '.join(map(str, steps))})"
    return f"""chosen AS ({chosen}),
        told AS (SELECT rank, step, writer, attempt, max(time) AS time FROM chosen GROUP BY ALL),
        fresh AS ({of_one_training("told")}),
        compared AS (SELECT c.* FROM chosen c
            SEMI JOIN fresh f USING (rank, step, writer, attempt)),
        alone AS (SELECT main, kind, place, step, whole, count(*) AS holders FROM compared
            GROUP BY main, kind, place, step, whole
            HAVING count(*) FILTER (bad) BETWEEN 1 AND count(*) - 1)"""


def _first_alone(steps: Sequence[int]) -> str:
    return f"WITH {_alone(steps)} SELECT DISTINCT main, step FROM alone ORDER BY step, main"


class _BadRow(NamedTuple):
    rank: int
    replica: int | None
    kind: str
    place: str
    path: str
    nan: int
    inf: int
    elements: int
    holders: int

    @property
    def number(self) -> int:
        """Of the replica, or else of the rank."""
        return self.rank if self.replica is None else self.replica

    @property
    def site(self) -> Site:
        return Site(Kind(self.kind), self.place)


def _symptom(ranks: RankData, group: str, step: int) -> RankSymptom | None:
    rows = ranks.ask(
        f"WITH {_alone([step])} SELECT rank, replica, kind, place, path, nan, posinf + neginf, "
        '"count", holders FROM compared JOIN alone USING (main, kind, place, step, whole) '
        "WHERE bad AND main = ?",
        group,
    )
    bad = [_BadRow(*row) for row in rows]
    order = ranks.order()
    site = min({each.site for each in bad}, key=lambda site: (moment_of(site, order), site))
    here = sorted((each for each in bad if each.site == site), key=lambda each: each.number)
    first = here[0]
    spread, is_lasting = _consequences(ranks, group, step)
    if not is_lasting and all(each.site.kind in BACKWARD for each in bad):
        return None  # A step that loss scaling has skipped.
    are_replicas = first.replica is not None
    who = [each.number for each in here]
    name = "replica" if are_replicas else "rank"
    where = in_words(who, name)
    spreads = spread is not None and (are_replicas or not site.kind.is_of_variable)
    what = "NaN" if first.nan else "Inf"
    place = "the loss" if site.kind is Kind.LOSS else str(site)
    return RankSymptom(
        title=f"{what} in step {step} on {where} alone, first in {place}"
        + (f", which has reached the gradients of all {name}s." if spreads else "."),
        evidence={
            **({name: who[0]} if len(who) == 1 else {f"{name}s": len(who)}),
            "NaN": first.nan,
            "Inf": first.inf,
            "elements": first.elements,
            f"{name}s finite": first.holders - len(here),
            "tensors affected": len({each.site for each in bad}),
            **({"gradients since step": spread} if spread is not None and spreads else {}),
        },
        sites=sorted(
            {Site(each.site.kind, each.path) for each in bad},
            key=lambda other: (other != Site(site.kind, first.path), other),
        ),
        layer="" if site.kind in (Kind.INPUT, Kind.TARGET, Kind.LOSS) else site.layer,
        since=step,
        severity=Severity.ERROR if is_lasting else Severity.WARNING,
        remedy=_remedy(site.kind, where),
        group=group,
    )


def _consequences(ranks: RankData, group: str, step: int) -> tuple[int | None, bool]:
    """Since when gradients or weights of all are bad, and whether anything is after the step.

    Of a run that ended with the step, it is not known that it would have gone on well.
    """
    ((spread, after, last),) = ranks.ask(
        f"SELECT min(step) FILTER (bad AND replica IS NULL AND kind IN "
        f"({_listed((Kind.GRADIENT, Kind.APPLIED_GRADIENT, Kind.WEIGHT))})), "
        f"count(*) FILTER (bad AND step > ? AND kind IN ({_listed(_LASTING)})), max(step) "
        f"FROM ({_ROWS}) WHERE main = ? AND step >= ?",
        step,
        group,
        step,
    )
    return spread, bool(after) or last == step


def _remedy(kind: Kind, where: str) -> str:
    if kind in (Kind.INPUT, Kind.TARGET):
        return f"The data that {where} was given holds NaN or Inf: clean that part of it."
    return (
        f"All run the same program, so look at what {where} alone has: its part of the data at "
        "that step, a sample that is empty, all 0 or very large, say; if the data is good, its "
        "memory and processor."
    )
