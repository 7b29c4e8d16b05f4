"""A statistic over the steps of a run."""

from collections.abc import Sequence

import numpy as np

from gradwatch.core import FIELDS, UPDATE_RATIO, Kind, Site, Summary
from gradwatch.read.chosen_rows import ChosenRows, RankChoice
from gradwatch.read.members import kind_of, members
from gradwatch.read.snapshot import Snapshot
from gradwatch.read.statistic_values import find_statistic, values_of
from gradwatch.read.steps import Steps, Values


def series(
    snapshot: Snapshot,
    kind_name: Kind | str,
    path: str,
    name: str,
    rank: RankChoice,
    micro_batch: int | None = None,
) -> tuple[Steps, Values]:
    """See `Run.series`."""
    kind = kind_of(kind_name, snapshot.sites)
    statistic = find_statistic(name, kind)
    sites = members(kind, path, snapshot.sites, snapshot.groups)
    steps, summary = summaries(snapshot, sites, rank, micro_batch)
    weight = None
    if statistic is UPDATE_RATIO:
        weights = weights_of(sites, snapshot)
        if not weights:
            return steps[:0], np.zeros(0)
        weight_steps, weight = summaries(snapshot, weights, rank, micro_batch)
        steps, at, weight_at = np.intersect1d(steps, weight_steps, return_indices=True)
        summary, weight = summary[at], weight[weight_at]
    return steps, values_of(statistic, summary, weight)


def summaries(
    snapshot: Snapshot, sites: Sequence[Site], rank: RankChoice, micro_batch: int | None = None
) -> tuple[Steps, Summary]:
    """The steps of some sites of one kind, and the merged summary at each step."""
    chosen = ChosenRows(snapshot, dict.fromkeys(sites, 0), rank, micro_batch=micro_batch)
    rows = chosen.fetch(
        f"SELECT step, {chosen.merged(FIELDS)} FROM {chosen.sql(FIELDS)} "
        "GROUP BY step ORDER BY step"
    )
    return rows["step"].astype(np.int64), Summary(*(rows[name] for name in FIELDS))


def weights_of(updates: Sequence[Site], snapshot: Snapshot) -> list[Site]:
    """The recorded weights of the variables whose updates these are."""
    return [w for u in updates if (w := Site(Kind.WEIGHT, u.path)) in snapshot.numbers]
