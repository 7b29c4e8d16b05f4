"""Gradients that are too small for their number format."""

import numpy as np

from gradwatch.core import EDGES, NONFINITE, ZERO, Kind, ModelFacts
from gradwatch.diagnosis.finding import Symptom, Symptoms
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.judgement import judgement
from gradwatch.diagnosis.network_order import matrices
from gradwatch.diagnosis.rule import Limits, Threshold, rule
from gradwatch.diagnosis.value_table import Array

_SMALLEST_NORMAL = {"float16": 2.0**-14, "bfloat16": 2.0**-126}


@rule(
    "underflow",
    remedy=(
        "Use a loss scale (keras.optimizers.LossScaleOptimizer, torch.amp.GradScaler), or compute "
        "in float32 or in bfloat16, which has the range of float32."
    ),
    thresholds={
        "share": Threshold(0.5, "of a matrix's gradient elements that are lost or nearly so"),
        "measured steps": Threshold(3, "one batch may be odd"),
        "loss scale": Threshold(1.0, "below, scaling makes gradients smaller, not larger"),
    },
    needs=[Kind.GRADIENT],
)
def underflow(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """Half-precision gradients are below the smallest normal number, or the scale collapses."""
    scale = history.numbers.get("loss_scale", [])
    if len(scale) > 1 and scale[-1][1] < limits["loss scale"]:
        yield Symptom(
            title=f"The loss scale has collapsed to {scale[-1][1]:.3g}.",
            evidence={"loss scale": scale[-1][1], "initial loss scale": scale[0][1]},
            remedy="Gradients overflow at any scale: find out what makes them infinite.",
            about="loss scale",
        )
    smallest = _SMALLEST_NORMAL.get((facts.precision or "").removeprefix("mixed_"))
    if smallest is None:
        return
    table = history[Kind.GRADIENT]
    count = int(limits["measured steps"])
    if table.measured <= count or judgement(history, facts).has_learned:
        return
    lost = _lost_share(history, smallest / (facts.optimizer.loss_scale or 1.0), count)
    mixing = matrices(table, facts)
    chosen = np.all(lost > limits.per_site("share", table.sites), axis=0) & mixing
    is_flat = judgement(history, facts).is_flat
    # If all gradients are lost, the loss need not confirm it.
    if not (is_flat and chosen.any()) and not np.all(lost[:, mixing] > 0.99):
        return
    sites = table.sites_where(chosen)
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


def _lost_share(history: History, limit: float, count: int) -> Array:
    """The share of elements that are 0 or below the limit, in the last steps.

    With a histogram it is exact; without one it is a lower bound, from the number of zeros and
    the largest element.
    """
    table = history[Kind.GRADIENT]
    zeros, sizes = table.statistic("zeros", count), table.statistic("count", count)
    lost = np.where(table.statistic("linf", count) < limit, 1.0, zeros / sizes)
    reading = history.reading
    if reading is not None and reading.cells:
        small = np.maximum(np.abs(EDGES[:-1]), np.abs(EDGES[1:])) <= limit
        small = small[:NONFINITE]
        small[ZERO] = True
        column = {site: i for i, site in enumerate(table.sites)}
        for position, cells in reading.cells.items():
            i = column.get(reading.sites[position])
            if i is not None and cells.sum() > 0:
                share = float(cells[:NONFINITE][small].sum() / cells.sum())
                lost[-1, i] = max(lost[-1, i], share)
    return lost
