"""The statistics of a site, a layer or a block over time."""

from collections.abc import Sequence

import numpy as np

from gradwatch.core import STATISTICS, UPDATE_RATIO, Kind, Site, zero_share
from gradwatch.diagnosis import Finding
from gradwatch.read import RowGroups
from gradwatch.view.data.heatmap_data import row_table
from gradwatch.view.data.plain import Answer, doubles, whole
from gradwatch.view.data.run_view import RunView, Window


def series(
    view: RunView, kind: str, path: str, window: Window, findings: Sequence[Finding] = ()
) -> Answer:
    """`SeriesData` of `types.ts`; a path as in `Run.series`."""
    chosen = view.kind(kind)
    sites = view.run.members(chosen, path)
    names = [name for name, each in STATISTICS.items() if not each.is_count]
    names += [UPDATE_RATIO.name] * (chosen is Kind.UPDATE)
    rows = RowGroups.of([sites])
    # All fields of a summary are read here, so zeros cost no query of their own.
    table, columns, kept = row_table(view, kind, rows, [*names, "zeros"], window)
    # Others of its kind may have been measured more often.
    own = np.arange(table.first.size)[kept]
    own = own[table.steps[0, own] > 0]
    total = table.total
    with np.errstate(all="ignore"):
        elements = np.where(total.count[0] > 0, total.count[0], np.nan)
        bad = table.nonfinite[0] / elements
    measured = np.flatnonzero(table.steps[0] > 0)[-1:]
    return {
        "kind": kind,
        "path": path,
        **columns,
        "first": whole(table.cell_first[0, own]),
        "last": whole(table.cell_last[0, own]),
        "sites": len(sites),
        "shape": _shape(view, sites),
        "elements": int(sum(total.count[0, measured] // table.steps[0, measured])),
        "statistics": {name: doubles(table.shown[name][0, own]) for name in names},
        "zeros": doubles(zero_share(total)[0, own]),
        "nonfinite": doubles(bad[own]),
        "meaning": view.run.meaning.get(str(chosen), ""),
        "findings": concerning(findings, sites, path),
        "histogram_steps": whole(view.run.histogram_steps(chosen, path, rank=view.rank)),
    }


def concerning(findings: Sequence[Finding], sites: Sequence[Site], path: str) -> list[int]:
    """The indices of the findings about one of the sites or its layer."""
    layers = {path, *(site.layer for site in sites)}
    paths = {site.path for site in sites}
    return [
        i
        for i, finding in enumerate(findings)
        if (finding.layer and finding.layer in layers)
        or any(site.path in paths for site in finding.sites)
    ]


def _shape(view: RunView, sites: Sequence[Site]) -> str:
    if len(sites) != 1:
        return ""
    tree = view.tree(str(sites[0].kind))
    node = tree.node_of.get(sites[0])
    return "" if node is None else tree.shape[node]
