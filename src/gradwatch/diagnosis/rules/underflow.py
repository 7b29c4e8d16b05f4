"""Gradients that are too small for the numbers they are kept in."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradwatch.core import EDGES, NONFINITE, ZERO, Kind, ModelFacts
from gradwatch.diagnosis.finding import Symptom
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.limits import Limits
from gradwatch.diagnosis.network_order import matrices
from gradwatch.diagnosis.quantities import has_learned, progress
from gradwatch.diagnosis.rule import Threshold, rule

_SMALLEST_NORMAL = {"float16": 2.0**-14, "bfloat16": 2.0**-126}


@rule(
    "underflow",
    remedy=(
        "Use a loss scale (keras.optimizers.LossScaleOptimizer, torch.amp.GradScaler), compute in "
        "bfloat16, which has the range of float32, or in float32."
    ),
    thresholds={
        "share": Threshold(0.5, "of a matrix's gradient elements that are lost or nearly so"),
        "measured steps": Threshold(3, "one batch may be odd"),
        "improvement": Threshold(0.05, "a network that learns is left alone"),
        "loss scale": Threshold(1.0, "below it, scaling makes gradients smaller, not larger"),
    },
    needs=[Kind.GRADIENT],
)
def underflow(history: History, facts: ModelFacts, limits: Limits) -> Iterator[Symptom]:
    """In half precision, gradients are under the smallest normal number; or the scale collapses."""
    scale = history.numbers.get("loss_scale", [])
    if len(scale) > 1 and scale[-1][1] < limits["loss scale"]:
        yield Symptom(
            title=f"The loss scale has collapsed to {scale[-1][1]:.3g}.",
            evidence={"loss scale": scale[-1][1], "at the start": scale[0][1]},
            remedy="Gradients overflow at any scale: look for what makes them infinite.",
            about="loss scale",
        )
    smallest = _SMALLEST_NORMAL.get((facts.precision or "").removeprefix("mixed_"))
    if smallest is None:
        return
    table = history[Kind.GRADIENT]
    count = int(limits["measured steps"])
    if table.measured <= count or has_learned(history, facts, 0.8):
        return
    lost = _lost_share(history, smallest, facts.optimizer.loss_scale or 1.0, count)
    mixing = matrices(table, facts)
    chosen = np.all(lost > limits.per_site("share", table.sites), axis=0) & mixing
    is_flat = progress(history, facts) < limits["improvement"]
    # Where it is all of the gradients, the loss need not be waited for.
    if not (is_flat and chosen.any()) and not np.all(lost[:, mixing] > 0.99):
        return
    sites = [table.sites[i] for i in np.flatnonzero(chosen)]
    worst = float(np.nanmax(lost[-1][chosen]))
    yield Symptom(
        title=f"Gradients underflow in {facts.precision}: {worst:.0%} of {sites[-1].path}.",
        evidence={
            "share lost": worst,
            "smallest normal number": smallest,
            "largest gradient": float(np.nanmax(table.latest("linf")[chosen])),
            "variables": len(sites),
        },
        sites=sites,
        layer=sites[-1].layer,
        since=table.since(count),
        about="underflow",
    )


def _lost_share(
    history: History, smallest: float, scale: float, count: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """The share of elements under the smallest normal number, or 0, in the last steps.

    With a histogram it is counted; without one it is a lower bound, from what is 0 and
    from the largest element.
    """
    table = history[Kind.GRADIENT]
    limit = smallest / scale
    zeros, sizes = table.statistic("zeros", count), table.statistic("count", count)
    with np.errstate(invalid="ignore", divide="ignore"):
        lost = np.where(table.statistic("linf", count) < limit, 1.0, zeros / sizes)
    reading = history.reading
    if reading is not None and reading.cells:
        small = np.maximum(np.abs(EDGES[:-1]), np.abs(EDGES[1:])) <= limit
        small = small[:NONFINITE]
        small[ZERO] = True
        place = {site: i for i, site in enumerate(table.sites)}
        for position, cells in reading.cells.items():
            i = place.get(reading.sites[position])
            if i is not None and cells.sum() > 0:
                share = float(cells[:NONFINITE][small].sum() / cells.sum())
                lost[-1, i] = max(lost[-1, i], share)
    return np.asarray(lost)
