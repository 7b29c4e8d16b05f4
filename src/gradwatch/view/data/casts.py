"""What casts to narrow number formats would lose, of each tensor with a histogram."""

from collections.abc import Mapping, Sequence
from typing import Any

from gradwatch.core import NUMBER_FORMATS, Histogram, Site
from gradwatch.read import Run
from gradwatch.util import percent_range
from gradwatch.view.data.plain import Answer

OUTCOMES = {"zero": "to 0", "subnormal": "subnormal", "overflow": "too large"}
"""What can become of an element, with how it is labelled."""


def cast_entries(histogram: Histogram) -> list[Answer]:
    """What casts would lose, by number format; none without an element that can be lost."""
    lost = {name: histogram.lost(name) for name in NUMBER_FORMATS}
    return [
        {"format": name, **{outcome: list(share) for outcome, share in each.shares().items()}}
        for name, each in lost.items()
        if each.elements
    ]


def cast_rows(run: Run, sites: Sequence[Site], rank: int) -> list[Answer]:
    """For each of the sites that has a histogram, what casts would lose of the last one."""
    last = {
        (kind, path): step
        for kind, path, step in run.sql(
            "SELECT kind, path, max(step) FROM histograms WHERE rank = ? GROUP BY kind, path",
            (rank,),
        )
    }
    histograms = {step: _histograms_at(run, step, rank) for step in set(last.values())}
    found = []
    for site in sites:
        kind, path = str(site.kind), site.path
        step = last.get((kind, path))
        # The summaries of a step may be in a segment that is damaged.
        histogram = None if step is None else histograms[step].get(site)
        casts = [] if histogram is None else cast_entries(histogram)
        if casts:
            found.append({"kind": kind, "path": path, "step": step, "casts": casts})
    return found


def _histograms_at(run: Run, step: int, rank: int) -> dict[Site, Histogram]:
    """Of the step as a whole where that was recorded, else of its micro-batches together."""
    whole: dict[Site, Histogram] = {}
    parts: dict[Site, Histogram] = {}
    for reading in run.at(step, rank=rank):
        for i, cells in reading.cells.items():
            site, histogram = reading.sites[i], Histogram(cells, reading.summary[i])
            if reading.micro_batch is None:
                whole[site] = histogram
            else:
                parts[site] = parts.get(site, Histogram.empty()).merge(histogram)
    return parts | whole


def cast_columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The rows as columns of text by their headers; one in which nothing is lost is left out."""
    columns: dict[str, list[str]] = {}
    for i, name in enumerate(NUMBER_FORMATS):
        for outcome, label in OUTCOMES.items():
            shares = [row["casts"][i][outcome] for row in rows]
            if any(high for _, high in shares):
                columns[f"{name} {label}"] = [percent_range(*share) for share in shares]
    return columns
