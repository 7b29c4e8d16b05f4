"""Facts about every site of a run, each by one SQL query over its rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import STATISTICS, VALUE, Kind, Site, shown_sql
from gradwatch.read import EVER, Bucketing, RowGroups, Run, Steps

_NOT_FINITE = "(nan + posinf + neginf)"
_L2 = shown_sql(STATISTICS["l2"])


@dataclass(frozen=True)
class LastMeasurement:
    """The last measurement of a site; `value` is that of a kind that is one number.

    `l2` is NaN or infinite if an element is; `finite` counts the elements that are not.
    """

    step: int
    count: int
    finite: int
    zeros: int
    l2: float
    value: float


@dataclass(frozen=True)
class SiteHistory:
    """A site over the whole run.

    `nonfinite` counts elements in all steps together; `nonfinite_steps` and `zero_steps` count
    steps with any NaN or infinite element, and steps with only zeros. `peak` is the largest finite
    L2.
    """

    steps: int
    nonfinite: int
    nonfinite_steps: int
    first_nonfinite: int | None
    last_nonfinite: int | None
    zero_steps: int
    peak: float | None
    peak_step: int | None


@dataclass(frozen=True)
class NumberRange:
    """A loss, or another kind that is one number, over the whole run."""

    steps: int
    first: float
    last: float
    last_step: int
    lowest: float | None
    lowest_step: int | None
    highest: float | None
    highest_step: int | None


@dataclass(frozen=True)
class StatisticRange:
    """A statistic of a site over the whole run; None where it is not defined.

    The first and the last value are NaN or infinite if an element is; the others are finite.
    """

    steps: int
    first: float | None
    last: float | None
    lowest: float | None
    lowest_step: int | None
    highest: float | None
    highest_step: int | None


def last_measurements(run: Run, rank: int, since: int | None = None) -> dict[Site, LastMeasurement]:
    """The last measurement of every site; of the step as a whole, if that was measured.

    With `since`, sites that were measured only before that step are left out.
    """
    rows = _by_site(
        run,
        f"""
        WITH own AS (FROM summaries WHERE rank = ? AND step >= ?),
        last AS (SELECT kind, path, max(step) AS step FROM own GROUP BY kind, path)
        SELECT kind, path, step, sum(count)::BIGINT, sum(count - {_NOT_FINITE})::BIGINT,
        sum(zeros)::BIGINT, sqrt(sum(({_L2}) ** 2)), sum({VALUE.sql})
        FROM own JOIN last USING (kind, path, step)
        GROUP BY kind, path, step, micro_batch IS NULL
        QUALIFY row_number() OVER (PARTITION BY kind, path ORDER BY micro_batch IS NULL DESC) = 1
        """,
        rank,
        EVER[0] if since is None else since,
    )
    return {site: LastMeasurement(*values) for site, values in rows.items()}


def pace(run: Run, rank: int, since: int) -> tuple[float | None, float | None]:
    """Steps per second from a step on, and the time of the last one; None if unknown."""
    rows = run.sql(
        "SELECT step, min(time) FROM summaries WHERE rank = ? AND step >= ? GROUP BY step",
        (rank, since),
    ).fetchall()
    if not rows:
        return None, None
    (first, begun), (last, ended) = min(rows), max(rows)
    return (last - first) / (ended - begun) if ended > begun else None, ended


def site_histories(run: Run, rank: int) -> dict[Site, SiteHistory]:
    """Every site over the whole run."""
    # Counting distinct steps is slow, and only micro-batches have several rows a step.
    steps = "count(DISTINCT step)" if _has_micro_batches(run) else "count(*)"
    rows = _by_site(
        run,
        f"""
        SELECT kind, path, {steps}, sum({_NOT_FINITE})::BIGINT,
        {steps} FILTER ({_NOT_FINITE} > 0),
        min(step) FILTER ({_NOT_FINITE} > 0), max(step) FILTER ({_NOT_FINITE} > 0),
        {steps} FILTER (zeros = count AND count > 0),
        max(l2) FILTER ({_NOT_FINITE} = 0), arg_max(step, l2) FILTER ({_NOT_FINITE} = 0)
        FROM summaries WHERE rank = ? GROUP BY kind, path
        """,
        rank,
    )
    return {site: SiteHistory(*values) for site, values in rows.items()}


def number_ranges(run: Run, rank: int) -> dict[Site, NumberRange]:
    """Every site of a kind that is one number, over the whole run."""
    kinds = sorted({str(site.kind) for site in run.sites() if site.kind.is_number})
    if not kinds:
        return {}
    rows = _by_site(
        run,
        f"""
        WITH own AS (SELECT kind, path, step, {VALUE.sql} AS value FROM summaries
            WHERE rank = ? AND list_contains(?, kind))
        SELECT kind, path, count(DISTINCT step), arg_min(value, step), arg_max(value, step),
        max(step), min(value) FILTER (isfinite(value)),
        arg_min(step, value) FILTER (isfinite(value)), max(value) FILTER (isfinite(value)),
        arg_max(step, value) FILTER (isfinite(value))
        FROM own GROUP BY kind, path
        """,
        rank,
        kinds,
    )
    return {site: NumberRange(*values) for site, values in rows.items()}


def statistic_ranges(
    run: Run, sites: Sequence[Site], statistic: str, rank: int
) -> dict[Site, StatisticRange]:
    """A statistic of sites of one kind, over the whole run."""
    if statistic not in STATISTICS or _has_micro_batches(run):
        # Made of two kinds, or of several rows a step: the reader knows how to merge those.
        groups = [[site] for site in sites]
        each = shown_series(run, sites[0].kind, groups, statistic, rank) if sites else []
        return {site: _range(*own) for site, own in zip(sites, each, strict=True)}
    rows = _by_site(
        run,
        f"""
        SELECT kind, path, count(*), first(s ORDER BY step), last(s ORDER BY step),
        min(s) FILTER (isfinite(s)), arg_min(step, s) FILTER (isfinite(s)),
        max(s) FILTER (isfinite(s)), arg_max(step, s) FILTER (isfinite(s))
        FROM (SELECT kind, path, step, ({shown_sql(STATISTICS[statistic])})::DOUBLE AS s
            FROM summaries WHERE rank = ? AND kind = ?) GROUP BY kind, path
        """,
        rank,
        str(sites[0].kind),
    )
    wanted = set(sites)
    return {site: StatisticRange(*values) for site, values in rows.items() if site in wanted}


def shown_series(
    run: Run, kind: Kind, groups: Sequence[Sequence[Site]], statistic: str, rank: int | None
) -> list[tuple[Steps, NDArray[np.float64]]]:
    """A statistic of groups of sites at each step, as it is shown: NaN where an element is."""
    table = run.row_table(kind, RowGroups.of(groups), [statistic], Bucketing(1), rank=rank)
    values = table.shown[statistic]
    # A ratio is known only where the weight was measured, too.
    known = (table.steps > 0) & ~(np.isnan(values) & (table.nonfinite == 0))
    return [(table.first[own], values[i, own]) for i, own in enumerate(known)]


def _has_micro_batches(run: Run) -> bool:
    return len(run.sql("SELECT 1 FROM summaries WHERE micro_batch IS NOT NULL LIMIT 1")) > 0


def _range(steps: Steps, values: NDArray[np.float64]) -> StatisticRange:
    pairs = zip(values.tolist(), steps.tolist(), strict=True)
    known = [(v, s) for v, s in pairs if math.isfinite(v)]
    lowest = min(known, key=lambda each: each[0], default=(None, None))
    highest = max(known, key=lambda each: each[0], default=(None, None))
    ends = [values[i] if len(values) else None for i in (0, -1)]
    return StatisticRange(len(steps), *ends, *lowest, *highest)


def _by_site(run: Run, query: str, *parameters: object) -> dict[Site, tuple[Any, ...]]:
    """The answer to a query whose first columns are kind and path, in network order."""
    by_name = {(str(site.kind), site.path): site for site in run.sites()}
    rows = run.sql(query, parameters)
    found = {by_name[row[0], row[1]]: row[2:] for row in rows if (row[0], row[1]) in by_name}
    return {site: found[site] for site in by_name.values() if site in found}
