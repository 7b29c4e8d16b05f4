"""A rank that the others wait for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Kind, ModelFacts, Site
from gradwatch.diagnosis.across_ranks.rank_rule import (
    RankData,
    RankSymptom,
    capital,
    in_words,
    of_one_training,
    rank_rule,
)
from gradwatch.diagnosis.finding import Severity
from gradwatch.diagnosis.limits import Limits
from gradwatch.diagnosis.rule import Threshold

_STRETCHES = 20
"""A run is looked at in so many stretches at most: a rank may begin to be slow."""
_IS_OWN = "kind = 'scalar' AND (path = 'own_seconds' OR path LIKE '%/own_seconds')"
_IS_STEP = "kind = 'scalar' AND (path = 'step_seconds' OR path LIKE '%/step_seconds')"


@rank_rule(
    "straggling-rank",
    severity=Severity.WARNING,
    remedy=(
        "All wait for it at every step. Look at what it does before it meets the others: how its "
        "data is loaded (workers, disk, longer samples), what it alone does between steps (logs, "
        "checkpoints, evaluation), and what else runs on its machine."
    ),
    thresholds={
        "factor": Threshold(1.3, "most of its times are above so many times the others' median"),
        "share": Threshold(0.1, "of the step; waiting less than that is of little account"),
        "seconds": Threshold(1e-3, "less than that is the noise of a host's clock and threads"),
        "values": Threshold(20, "of fewer, three quarters may be high by chance"),
    },
)
def straggling_rank(ranks: RankData, facts: ModelFacts, limits: Limits) -> Iterator[RankSymptom]:
    """A rank takes clearly longer by itself than the others do, so that they wait for it."""
    rows = ranks.ask(_times(limits["values"]))
    for group, of_group in groupby(rows, key=lambda row: row[0]):
        found = _of_group(group, [row[1:] for row in of_group], limits)
        if found is not None:
            yield found


@dataclass(frozen=True)
class _Stretch:
    """The ranks in a stretch of steps; arrays have an entry for each rank."""

    first: int
    last: int
    ranks: NDArray[np.int64]
    medians: NDArray[np.float64]
    values: NDArray[np.int64]
    usual: float
    step: float
    is_slow: NDArray[np.bool_]

    @property
    def slow(self) -> tuple[int, ...]:
        """Those that are slow, the slowest first."""
        return tuple(sorted(self.ranks[self.is_slow].tolist(), key=lambda r: -self.of(r)))

    def of(self, rank: int) -> float:
        """The median of a rank."""
        return float(self.medians[self.ranks == rank][0])


def _times(values: float) -> str:
    """For each stretch and rank how many times there are, quartile, median, and the step's time."""
    return f"""
        WITH own AS (SELECT part_of, rank, step, time, writer, attempt, "sum" AS seconds
            FROM summaries WHERE {_IS_OWN} AND nan + posinf + neginf = 0 AND "count" > 0),
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
            WHERE {_IS_STEP} AND "count" > 0 AND step >= first AND step < beyond GROUP BY ALL)
        SELECT p.part_of, stretch, rank, count(*), quantile_disc(p.seconds, 0.25),
            median(p.seconds), min(step), max(step), any_value(s.seconds)
        FROM placed p JOIN steps s USING (part_of, stretch)
        GROUP BY p.part_of, stretch, rank HAVING count(*) >= {values}
        ORDER BY p.part_of, stretch, rank"""


def _of_group(group: str, rows: list[tuple[Any, ...]], limits: Limits) -> RankSymptom | None:
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
    own = last.of(worst)
    path = f"{group}/own_seconds" if group else "own_seconds"
    return RankSymptom(
        title=f"{capital(in_words(last.slow))} hold{'s' * (len(last.slow) == 1)} up the others, by "
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


def _stretch(rows: Iterable[tuple[Any, ...]], limits: Limits) -> _Stretch | None:
    _, ranks, values, quartiles, medians, firsts, lasts, steps = map(
        np.array, zip(*rows, strict=True)
    )
    if ranks.size < 2:
        return None
    # The lower of the two in the middle: of two ranks, the faster one.
    usual = float(np.sort(medians)[(ranks.size - 1) // 2])
    step = float(steps[0])
    least = max(limits["share"] * step, limits["seconds"])
    is_slow = (quartiles > limits["factor"] * usual) & (medians - usual > least)
    return _Stretch(
        int(firsts.min()), int(lasts.max()), ranks, medians, values, usual, step, is_slow
    )
