"""The distribution of a tensor's elements over time, and its pictures."""

from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Histogram, finite
from gradwatch.read import NotRecordedError, within
from gradwatch.view.data.casts import cast_entries
from gradwatch.view.data.plain import Answer, doubles, whole
from gradwatch.view.data.run_view import RunView, Window

Values = NDArray[np.float64]

LEVELS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
BINS = 64
_TAIL = 0.002
"""The share of outliers at either end, which share one wide bin."""


def distribution(view: RunView, kind: str, path: str, window: Window) -> Answer:
    """`DistributionData` of `types.ts`; neighbouring steps are merged until they fit."""
    recorded, histograms = view.run.histograms(view.kind(kind), path, rank=view.rank)
    chosen = np.isin(recorded, within(recorded, window.around(recorded).stretch))
    steps = recorded[chosen]
    own = [each for each, is_chosen in zip(histograms, chosen, strict=True) if is_chosen]
    columns = window.bucketing(steps).of(steps)
    merged = [
        reduce(Histogram.merge, [own[i] for i in np.flatnonzero(columns == column)])
        for column in np.unique(columns)
    ]
    last = [int(steps[columns == column][-1]) for column in np.unique(columns)]
    edges = edges_for(merged)
    quantiles = [_quantiles(each) for each in merged]
    return {
        "kind": kind,
        "path": path,
        "steps": last,
        "levels": list(LEVELS),
        "quantiles": doubles(np.array(quantiles)),
        "edges": doubles(edges),
        "shares": doubles([shares(each, edges) for each in merged]),
        "casts": cast_entries(own[-1]) if own else [],
    }


def _quantiles(histogram: Histogram) -> list[float]:
    """The values at `LEVELS`; the outermost are exact."""
    if finite(histogram.summary) == 0:
        return [float("nan")] * len(LEVELS)
    inner = [histogram.quantile(level) for level in LEVELS[1:-1]]
    return [float(histogram.summary.min), *inner, float(histogram.summary.max)]


def edges_for(histograms: Sequence[Histogram], bins: int = BINS) -> Values:
    """Edges of bins for all histograms: of equal width, except the outermost two, which reach
    to the extreme elements."""
    known = [each for each in histograms if finite(each.summary) > 0]
    if not known:
        return np.zeros(0)
    lowest = min(float(each.summary.min) for each in known)
    highest = max(float(each.summary.max) for each in known)
    if lowest == highest:
        # All elements are equal: a bin needs some width.
        room = abs(lowest) / 2 or 0.5
        return np.array([lowest - room, highest + room])
    low = min(each.quantile(_TAIL) for each in known)
    high = max(each.quantile(1 - _TAIL) for each in known)
    if not low < high:
        low, high = lowest, highest
    inner = np.linspace(low, high, bins - 1)
    return np.unique(np.concatenate([[lowest], inner, [highest]]))


def shares(histogram: Histogram, edges: Values) -> Values:
    """The share of the finite elements in each bin; the last bin includes its upper edge.

    Within a cell of the histogram, elements count as evenly spread.
    """
    lower, upper, counts = histogram.buckets()
    found = np.zeros(max(edges.size - 1, 0))
    total = counts.sum()
    if not total or not found.size:
        return found
    # A cell without width, such as the zeros, is in one bin; others may be in several.
    point = upper <= lower
    place = np.clip(np.searchsorted(edges, lower[point], "right") - 1, 0, found.size - 1)
    np.add.at(found, place, counts[point])
    low, high, many = lower[~point], upper[~point], counts[~point]
    with np.errstate(over="ignore"):
        passed = (edges[None, :] - low[:, None]) / (high - low)[:, None]
    found += (np.diff(np.clip(passed, 0.0, 1.0), axis=1) * many[:, None]).sum(axis=0)
    return np.asarray(found / total)


def pictures(view: RunView, path: str) -> Answer:
    """`PicturesData` of `types.ts`; NotRecordedError if there are none."""
    steps, _ = view.run.pictures(path, rank=view.rank)
    return {"path": path, "steps": whole(steps)}


def picture(view: RunView, path: str, step: int) -> bytes:
    """The picture of a step, as a PNG file; NotRecordedError if there is none."""
    steps, files = view.run.pictures(path, rank=view.rank)
    for at, file in zip(steps.tolist(), files, strict=True):
        if at == step:
            return file
    raise NotRecordedError(f"There is no picture of {path!r} of step {step}.")
