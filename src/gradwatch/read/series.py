"""A statistic over the steps of a run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import FIELDS, UPDATE_RATIO, VALUE, Kind, Site, Summary, l2, statistic
from gradwatch.read.members import check_statistic, kind_of, members
from gradwatch.read.rank_choice import RankChoice, is_merged
from gradwatch.read.snapshot import Snapshot

Steps = NDArray[np.int64]
Values = NDArray[np.float64]

_MERGED = {"min": "min(min)", "max": "max(max)"}
_SUMS = ", ".join(f"{_MERGED.get(f, f'sum({f})')}::DOUBLE AS {f}" for f in FIELDS)
_PLAIN = ", ".join(f"{f}::DOUBLE AS {f}" for f in FIELDS)
_FEW = 64


def series(
    snapshot: Snapshot,
    kind_name: Kind | str,
    path: str,
    name: str,
    rank: RankChoice,
    micro_batch: int | None = None,
) -> tuple[Steps, Values]:
    """The steps at which something was measured, and a statistic of it; see `Run.series`."""
    kind = kind_of(kind_name, snapshot.sites)
    check_statistic(name, kind)
    chosen = members(kind, path, snapshot.sites, snapshot.groups)
    steps, summary = summaries(snapshot, chosen, rank, micro_batch)
    with np.errstate(over="ignore", invalid="ignore"):
        if name == VALUE.name:
            return steps, VALUE(summary)
        if name == UPDATE_RATIO.name:
            return _ratios(snapshot, chosen, steps, summary, rank, micro_batch)
        return steps, np.asarray(statistic(name, summary), np.float64)


def summaries(
    snapshot: Snapshot, sites: Sequence[Site], rank: RankChoice, micro_batch: int | None = None
) -> tuple[Steps, Summary]:
    """The summary at each step of some sites of one kind, merged.

    Without a micro-batch, that of the step as a whole, and where there is none, those
    of its micro-batches merged. Numbers of several ranks are averaged.
    """
    where, parameters = condition(snapshot, sites, rank)
    if micro_batch is not None:
        where = f"{where} AND micro_batch = {int(micro_batch)}"
    ranks = snapshot.ranks_meant(sites, rank)
    source = snapshot.rows_of("summaries", ranks)
    if len(ranks) > 1 and is_merged(sites[0].kind, rank):
        return _of_several_ranks(snapshot, source, where, parameters, sites[0].kind)
    fields, group = (_PLAIN, "") if len(sites) == 1 else (_SUMS, "GROUP BY step, part")
    rows = snapshot.database.fetch(
        f"SELECT step, micro_batch IS NOT NULL AS part, {fields} "
        f"FROM {source} WHERE {where} {group} ORDER BY step",
        parameters,
    )
    steps, part = rows["step"].astype(np.int64), rows["part"].astype(bool)
    summary = Summary(*(rows[name] for name in FIELDS))
    if micro_batch is not None or not part.any():
        return steps, summary
    kept = ~part | ~np.isin(steps, steps[~part])
    measured, place = np.unique(steps[kept], return_inverse=True)
    return measured, summary[kept].merge_by(place, measured.size)


def _of_several_ranks(
    snapshot: Snapshot, source: str, where: str, parameters: Sequence[object], kind: Kind
) -> tuple[Steps, Summary]:
    """Each rank's own merged, or of numbers the average; each has micro-batches or has not."""
    rows = snapshot.database.fetch(
        f"SELECT step, count(*)::DOUBLE AS ranks, {_SUMS} FROM ("
        f"SELECT rank, step, micro_batch IS NOT NULL AS part, {_SUMS} FROM {source} "
        f"WHERE {where} GROUP BY rank, step, part "
        "QUALIFY row_number() OVER (PARTITION BY rank, step ORDER BY part) = 1"
        ") GROUP BY step ORDER BY step",
        parameters,
    )
    summary = Summary(*(rows[name] for name in FIELDS))
    return rows["step"].astype(np.int64), (
        average(summary, rows["ranks"]) if kind.is_number else summary
    )


def average(total: Summary, number: Values) -> Summary:
    """The average of so many summaries that were merged: what adds up is divided."""
    n = np.maximum(number, 1.0)
    bounds = {"min": total.min, "max": total.max}
    return Summary(*(bounds.get(name, getattr(total, name) / n) for name in FIELDS))


def condition(
    snapshot: Snapshot, sites: Sequence[Site], rank: RankChoice
) -> tuple[str, list[object]]:
    """The rows that are meant of some sites of one kind, in SQL, and its parameters."""
    where, parameters = of_sites(snapshot, sites)
    ranks = snapshot.ranks_meant(sites, rank)
    if len(ranks) == 1:
        return f"rank = ? AND {where}", [*ranks, *parameters]
    if is_merged(sites[0].kind, rank):
        return where, parameters
    # Each site where it is at home.
    homes = ["false"]
    for each in sorted(ranks):
        homes.append("rank = ? AND path IN (SELECT unnest(?))")
        parameters += [each, [s.path for s in sites if snapshot.home.get(s) == each]]
    return f"{where} AND ({' OR '.join(homes)})", parameters


def of_sites(snapshot: Snapshot, sites: Sequence[Site]) -> tuple[str, list[object]]:
    """All ranks' rows of some sites of one kind, in SQL, and its parameters."""
    kind = sites[0].kind
    where, parameters = "kind = ?", list[object]([str(kind)])
    if len(sites) == sum(site.kind is kind for site in snapshot.sites):
        return where, parameters
    numbers = {number for site in sites for number in snapshot.numbers[site]}
    if len(numbers) <= _FEW:
        # Segments are sorted by this number: nearly all of them is passed over.
        where += f" AND site IN ({', '.join(map(str, sorted(numbers)))})"
    if len(sites) == 1:
        return f"{where} AND path = ?", [*parameters, sites[0].path]
    return f"{where} AND path IN (SELECT unnest(?))", [*parameters, [s.path for s in sites]]


def _ratios(
    snapshot: Snapshot,
    updates: Sequence[Site],
    steps: Steps,
    summary: Summary,
    rank: RankChoice,
    micro_batch: int | None,
) -> tuple[Steps, Values]:
    known = set(snapshot.sites)
    weights = [s for u in updates if (s := Site(Kind.WEIGHT, u.path)) in known]
    if not weights:
        return steps[:0], np.zeros(0)
    weight_steps, weight = summaries(snapshot, weights, rank, micro_batch)
    common, at, weight_at = np.intersect1d(steps, weight_steps, return_indices=True)
    size, change = l2(weight)[weight_at], l2(summary)[at]
    return common, np.where(size > 0, change / np.where(size > 0, size, 1.0), np.nan)
