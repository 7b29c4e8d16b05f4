"""NaN or Inf on one rank while the others are finite."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gradwatch.core import Kind, ModelFacts, Site
from gradwatch.diagnosis.finding import Severity
from gradwatch.diagnosis.network_order import BACKWARD, PHASES
from gradwatch.diagnosis.rank_rule import (
    RankData,
    RankSymptom,
    enumerate_ranks,
    of_one_training,
    rank_rule,
)
from gradwatch.diagnosis.rule import Limits

_CHUNKS = (4, 16, 64, 256)
"""Steps with non-finite values are searched in chunks that end at these counts."""
# Masks contain minus infinity in outputs.
_IS_BAD = "(nan + posinf + CASE WHEN kind = 'output' THEN 0 ELSE neginf END > 0)"
_LASTING = (Kind.LOSS, Kind.GRADIENT, Kind.APPLIED_GRADIENT, Kind.UPDATE, Kind.WEIGHT)


def _sql_list(kinds: Sequence[Kind]) -> str:
    return ", ".join(f"'{kind}'" for kind in kinds)


_ROWS = f"""SELECT *, {_IS_BAD} AS bad,
    regexp_replace(path, '(^|/)replica_[0-9]+/', '\\1') AS place,
    regexp_replace(part_of, '(^|/)replica_[0-9]+$', '') AS main, replica IS NULL AS whole
    FROM summaries WHERE micro_batch IS NULL AND kind IN ({_sql_list(tuple(PHASES))})"""
"""Everything that may be NaN. The path of a replica's tensor becomes that of the whole."""


@rank_rule("non-finite-rank", severity=Severity.ERROR, thresholds={})
def non_finite_rank(ranks: RankData, facts: ModelFacts, limits: Limits) -> Iterator[RankSymptom]:
    """Some ranks or replicas have NaN or Inf that others do not have at the same step."""
    found: set[str] = set()
    begin = 0
    for end in _CHUNKS:
        steps = [row[0] for row in ranks.query(_BAD_STEPS, end - begin, begin)]
        begin = end
        if not steps:
            return
        lone = f"WITH {_alone(steps)} SELECT DISTINCT main, step FROM alone ORDER BY step, main"
        for group, step in ranks.query(lone):
            if group not in found and (symptom := _symptom(ranks, group, step)) is not None:
                found.add(group)
                yield symptom
        if found:
            return


_BAD_STEPS = f"SELECT DISTINCT step FROM ({_ROWS}) WHERE bad ORDER BY step LIMIT ? OFFSET ?"


def _alone(steps: Sequence[int]) -> str:
    """SQL: the tensors that are bad on some of the ranks and replicas that have them at a step."""
    chosen = f"SELECT * FROM ({_ROWS}) WHERE step IN ({', '.join(map(str, steps))})"
    return f"""chosen AS ({chosen}),
        marks AS (SELECT rank, step, writer, attempt, max(time) AS time FROM chosen GROUP BY ALL),
        fresh AS ({of_one_training("marks")}),
        compared AS (SELECT c.* FROM chosen c
            SEMI JOIN fresh f USING (rank, step, writer, attempt)),
        alone AS (SELECT main, kind, place, step, whole, count(*) AS holders FROM compared
            GROUP BY main, kind, place, step, whole
            HAVING count(*) FILTER (bad) BETWEEN 1 AND count(*) - 1)"""


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
        """The number of the replica or, without one, of the rank."""
        return self.rank if self.replica is None else self.replica

    @property
    def site(self) -> Site:
        return Site(Kind(self.kind), self.place)


def _symptom(ranks: RankData, group: str, step: int) -> RankSymptom | None:
    rows = ranks.query(
        f"WITH {_alone([step])} SELECT rank, replica, kind, place, path, nan, posinf + neginf, "
        '"count", holders FROM compared JOIN alone USING (main, kind, place, step, whole) '
        "WHERE bad AND main = ?",
        group,
    )
    bad = [_BadRow(*row) for row in rows]
    order = ranks.layer_order()
    site = min({each.site for each in bad}, key=lambda site: (order.moment(site), site))
    here = sorted((each for each in bad if each.site == site), key=lambda each: each.number)
    first = here[0]
    spread, is_lasting = _consequences(ranks, group, step)
    if not is_lasting and all(each.site.kind in BACKWARD for each in bad):
        return None  # Loss scaling has skipped this step.
    are_replicas = first.replica is not None
    who = [each.number for each in here]
    name = "replica" if are_replicas else "rank"
    where = enumerate_ranks(who, name)
    spreads = spread is not None and (are_replicas or not site.kind.is_of_variable)
    what = "NaN" if first.nan else "Inf"
    place = "the loss" if site.kind is Kind.LOSS else str(site)
    return RankSymptom(
        title=f"{what} in step {step} on {where} alone, first in {place}"
        + (f"; it has reached the gradients of all {name}s." if spreads else "."),
        evidence={
            **({name: who[0]} if len(who) == 1 else {f"{name}s": len(who)}),
            "NaN": first.nan,
            "Inf": first.inf,
            "elements": first.elements,
            f"finite {name}s": first.holders - len(here),
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
    """The first step at which shared gradients or weights are bad, and whether the harm lasts.

    If the run ended with this step, the harm is assumed to last.
    """
    ((spread, after, last),) = ranks.query(
        f"SELECT min(step) FILTER (bad AND replica IS NULL AND kind IN "
        f"({_sql_list((Kind.GRADIENT, Kind.APPLIED_GRADIENT, Kind.WEIGHT))})), "
        f"count(*) FILTER (bad AND step > ? AND kind IN ({_sql_list(_LASTING)})), max(step) "
        f"FROM ({_ROWS}) WHERE main = ? AND step >= ?",
        step,
        group,
        step,
    )
    return spread, bool(after) or last == step


def _remedy(kind: Kind, where: str) -> str:
    if kind in (Kind.INPUT, Kind.TARGET):
        return f"The data of {where} contains NaN or Inf: clean that part of it."
    return (
        f"All ranks run the same program, so check what {where} alone has: its part of the data at "
        "this step (an empty sample, one that is all 0 or very large); if the data is good, its "
        "memory and processor."
    )
