"""A rank that the others wait for."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Kind, ModelFacts, Site
from gradwatch.diagnosis.finding import Severity
from gradwatch.diagnosis.rank_rule import (
    RankData,
    RankSymptom,
    Row,
    enumerate_ranks,
    of_one_training,
    path_is,
    rank_rule,
)
from gradwatch.diagnosis.rule import Limits, Threshold
from gradwatch.diagnosis.value_table import Array, Mask

_STRETCHES = 20
"""A run is divided into at most this many stretches: a rank may become slow later."""


@rank_rule(
    "straggling-rank",
    severity=Severity.WARNING,
    remedy=(
        "All other ranks wait for it at every step. Check how its data is loaded (workers, disk, "
        "longer samples), what it alone does between steps (logs, checkpoints, evaluation), and "
        "what else runs on its machine."
    ),
    thresholds={
        "factor": Threshold(1.3, "times the others' median; most of its own times are above"),
        "share": Threshold(0.1, "of the step; shorter waits do not matter"),
        "seconds": Threshold(1e-3, "less is noise of the host's clock and threads"),
        "values": Threshold(20, "with fewer, three quarters may be high by chance"),
    },
)
def straggling_rank(ranks: RankData, facts: ModelFacts, limits: Limits) -> Iterator[RankSymptom]:
    """A rank takes clearly longer than the others, so that they wait for it."""
    rows = ranks.query(_times(limits["values"]))
    for group, group_rows in groupby(rows, key=lambda row: row[0]):
        symptom = _symptom(group, [row[1:] for row in group_rows], limits)
        if symptom is not None:
            yield symptom


@dataclass(frozen=True)
class _Stretch:
    """The ranks in a stretch of steps; arrays have one entry per rank."""

    first: int
    last: int
    ranks: NDArray[np.int64]
    medians: Array
    values: NDArray[np.int64]
    usual: float
    step: float
    is_slow: Mask

    @property
    def slow(self) -> tuple[int, ...]:
        """Slowest first."""
        return tuple(sorted(self.ranks[self.is_slow].tolist(), key=lambda r: -self.median(r)))

    def median(self, rank: int) -> float:
        return float(self.medians[self.ranks == rank][0])


def _times(values: float) -> str:
    """SQL: for each stretch and rank the number of times, quartile, median and the step's time."""
    return f"""
        WITH own AS (SELECT part_of, rank, step, time, writer, attempt, "sum" AS seconds
            FROM summaries WHERE kind = 'scalar' AND {path_is("own_seconds")}
            AND nan + posinf + neginf = 0 AND "count" > 0),
        fresh AS ({of_one_training("own")}),
        counted AS (SELECT part_of, rank, min(step) AS first, max(step) AS last, count(*) AS times
            FROM fresh GROUP BY part_of, rank),
        course AS (SELECT part_of, min(first) AS first, max(last) + 1 AS beyond,
            least({_STRETCHES}, greatest(1, floor(median(times) / {1.2 * values}))) AS stretches
            FROM counted GROUP BY part_of HAVING count(*) > 1),
        placed AS (SELECT f.*, floor((step - first) * stretches / (beyond - first)) AS stretch
            FROM fresh f JOIN course USING (part_of)),
        steps AS (SELECT part_of, floor((step - first) * stretches / (beyond - first)) AS stretch,
            median("sum") AS seconds FROM summaries JOIN course USING (part_of)
            WHERE kind = 'scalar' AND {path_is("step_seconds")}
            AND "count" > 0 AND step >= first AND step < beyond GROUP BY ALL)
        SELECT p.part_of, stretch, rank, count(*), quantile_disc(p.seconds, 0.25),
            median(p.seconds), min(step), max(step), any_value(s.seconds)
        FROM placed p JOIN steps s USING (part_of, stretch)
        GROUP BY p.part_of, stretch, rank HAVING count(*) >= {values}
        ORDER BY p.part_of, stretch, rank"""


def _symptom(group: str, rows: list[Row], limits: Limits) -> RankSymptom | None:
    stretches = [
        stretch
        for _, several in groupby(rows, key=lambda row: row[0])
        if (stretch := _stretch(list(several), limits)) is not None
    ]
    slow = [i for i, stretch in enumerate(stretches) if stretch.slow]
    if not slow:
        return None
    last = stretches[slow[-1]]
    first = last
    for i in reversed(slow):
        if not set(stretches[i].slow) & set(last.slow):
            break
        first = stretches[i]
    worst = last.slow[0]
    own = last.median(worst)
    path = f"{group}/own_seconds" if group else "own_seconds"
    who = enumerate_ranks(last.slow).capitalize()
    return RankSymptom(
        title=f"{who} hold{'s' * (len(last.slow) == 1)} up the others, by "
        f"{(own - last.usual) / last.step:.0%} of each step.",
        evidence={
            "rank": worst,
            "own seconds": own,
            "others' own seconds": last.usual,
            "step seconds": last.step,
            "ranks compared": len(last.ranks),
            "times compared": int(last.values[last.ranks == worst][0]),
        },
        sites=[Site(Kind.SCALAR, path)],
        since=first.first,
        detected=first.last,
        until=None if last is stretches[-1] else last.last,
        group=group,
    )


def _stretch(rows: Iterable[Row], limits: Limits) -> _Stretch | None:
    _, ranks, values, quartiles, medians, firsts, lasts, steps = map(
        np.array, zip(*rows, strict=True)
    )
    if ranks.size < 2:
        return None
    # The lower median: with two ranks, the faster one.
    usual = float(np.sort(medians)[(ranks.size - 1) // 2])
    step = float(steps[0])
    least = max(limits["share"] * step, limits["seconds"])
    is_slow = (quartiles > limits["factor"] * usual) & (medians - usual > least)
    return _Stretch(
        int(firsts.min()), int(lasts.max()), ranks, medians, values, usual, step, is_slow
    )
