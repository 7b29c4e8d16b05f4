"""A statistic of several runs, side by side."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Kind, Site
from gradwatch.read import (
    MODEL,
    Bucketing,
    MatchedBy,
    NotRecordedError,
    RowGroups,
    bare_info,
    by_width,
    common_counterparts,
    counterparts,
    whole_model,
)
from gradwatch.view.data.plain import Answer, doubles
from gradwatch.view.data.run_view import RunView
from gradwatch.view.data.selection import selected
from gradwatch.view.data.tree import Tree

Steps = NDArray[np.int64]
Row = tuple[Site, ...]
Matches = Mapping[Site, tuple[Row, MatchedBy]]

MAX_ROWS = 500
"""Sites of more rows are merged into layers or blocks."""


def compare(
    several: Sequence[RunView],
    kind: str,
    statistic: str,
    align: str,
    pattern: str,
    columns: int,
    rows: int = MAX_ROWS,
) -> Answer:
    """`ComparisonData` of `types.ts`; the first run is the one that others are compared with.

    A column has the same `step`s or the same `fraction` of training, as `align` says. An empty
    pattern selects all sites. NotRecordedError is raised if a run has nothing of the kind, or if
    nothing is selected.
    """
    first, *others = several
    chosen = first.kind(kind)
    found = [_sites(view, kind, pattern) for view in several]
    if not any(found):
        raise NotRecordedError(f"The runs have no {kind} in common that {pattern!r} selects.")
    pairs = [counterparts(first.run, view.run, chosen) for view in others]
    matches = common_counterparts(found[0], pairs)
    paths, merged = _rows(list(matches), rows)
    of_runs = [merged, *([_at(row, matches, i) for row in merged] for i in range(len(others)))]
    steps = [view.steps(chosen) for view in several]
    bucketings = _bucketings(steps, columns, align)
    tables = []
    for view, own, bucketing in zip(several, of_runs, bucketings, strict=True):
        total = tuple(whole_model(chosen, view.run.site_order))
        key = "compared", kind, pattern, len(paths), hash((*own, total))
        groups = RowGroups(key, (total, *own))
        tables.append(view.run.row_table(kind, groups, [statistic], bucketing, rank=view.rank))
    numbers = np.unique(np.concatenate([table.numbers for table in tables]))
    values = np.full((len(several), 1 + len(paths), numbers.size), np.nan)
    bad = np.zeros(values.shape, bool)
    for i, table in enumerate(tables):
        place = np.searchsorted(numbers, table.numbers)
        values[i][:, place] = table.shown[statistic]
        bad[i][:, place] = (table.nonfinite > 0) & ~np.isfinite(table.shown[statistic])
    scale = 1.0 / columns if align == "fraction" else float(bucketings[0].span)
    matched = [{site for row in own for site in row} for own in of_runs]
    return {
        "runs": [{"id": view.id, "name": view.name} for view in several],
        "kind": kind,
        "statistic": statistic,
        "align": align,
        "paths": paths,
        "merged": [
            path not in {site.path for site in row} for path, row in zip(paths, merged, strict=True)
        ],
        "matched": [_weakest(row, matches) for row in merged],
        "counterparts": [list(map(_path_of, own)) for own in of_runs[1:]],
        "only": [len(set(own) - seen) for own, seen in zip(found, matched, strict=True)],
        "position": doubles(numbers * scale),
        "ends": [1.0 if align == "fraction" else int(own[-1:].sum()) + 1 for own in steps],
        "width": scale,
        "values": doubles(values[:, 1:]),
        "nonfinite": np.argwhere(bad).tolist(),
        "model": doubles(values[:, 0]),
    }


def compare_series(
    several: Sequence[RunView], kind: str, path: str, statistic: str, align: str, columns: int
) -> Answer:
    """`ComparedSeries` of `types.ts`; runs without the path are left out."""
    runs, missing = [], None
    for view in several:
        try:
            sites = _counterpart(several[0], view, kind, path)
        except NotRecordedError as error:
            missing = error
            continue
        steps = view.steps(Kind(kind))
        bucketing = _bucketings([steps], columns, align)[0]
        table = view.run.row_table(
            kind, RowGroups.of([sites]), [statistic], bucketing, rank=view.rank
        )
        measured = table.steps[0] > 0
        position = table.first[measured].astype(np.float64)
        if align == "fraction" and steps.size:
            position = (position - steps[0]) / (steps[-1] - steps[0] + 1)
        runs.append(
            {
                "id": view.id,
                "name": view.name,
                "position": doubles(position),
                "values": doubles(table.shown[statistic][0, measured]),
            }
        )
    if missing is not None and not runs:
        raise missing
    return {"kind": kind, "path": path, "statistic": statistic, "align": align, "runs": runs}


def _counterpart(first: RunView, view: RunView, kind: str, path: str) -> list[Site]:
    """The sites of a run that a path of the first one stands for."""
    chosen = view.kind(kind)
    if path == MODEL and not chosen.is_number:
        return whole_model(chosen, view.run.site_order)
    if view is first:
        return view.run.members(kind, path)
    try:
        own = first.run.members(kind, path)
    except NotRecordedError:
        return view.run.members(kind, path)
    found = counterparts(first.run, view.run, chosen)
    sites = [found[site].site for site in own if site in found]
    if not sites:
        raise NotRecordedError(f"{view.name} has no counterpart of {path!r}.")
    return sites


def _at(row: Row, matches: Matches, run: int) -> Row:
    """The sites of another run that are those of a row."""
    return tuple(matches[site][0][run] for site in row)


def _weakest(row: Row, matches: Matches) -> str:
    """What says that the sites of a row are the same."""
    return max((matches[site][1] for site in row), key=list(MatchedBy).index, default="")


def _path_of(row: Row) -> str:
    """The path of a site or a layer; empty for a row of several layers."""
    layers = {site.layer for site in row}
    if len(row) == 1:
        return row[0].path
    return layers.pop() if len(layers) == 1 else ""


def _sites(view: RunView, kind: str, pattern: str) -> list[Site]:
    chosen = view.kind(kind)
    infos = [info for info in view.run.infos if info.kind is chosen]
    return [info.site for info in selected(infos, pattern)]


def _rows(sites: Sequence[Site], most: int) -> tuple[list[str], list[tuple[Site, ...]]]:
    """Paths and their sites: of layers and sites if they fit, or else of layers, or else of
    blocks."""
    layers: dict[str, list[Site]] = {}
    own = {site.path for site in sites}
    for site in sites:
        layers.setdefault(site.layer, []).append(site)
    whole = {
        layer: tuple(site for site in members if not site.is_slice)
        for layer, members in layers.items()
    }
    # A layer of one tensor would repeat it.
    several = {layer for layer, members in whole.items() if len(members) > 1 and layer not in own}
    with_sites = len(sites) + len(several) <= most
    if not with_sites and len(layers) > most:
        return _blocks(sites, most)
    paths: list[str] = []
    rows: list[tuple[Site, ...]] = []
    for layer, members in layers.items():
        if layer in several or (whole[layer] and not with_sites):
            paths.append(layer)
            rows.append(whole[layer])
        if with_sites:
            paths += [site.path for site in members]
            rows += [(site,) for site in members]
    return paths, rows


def _blocks(sites: Sequence[Site], most: int) -> tuple[list[str], list[tuple[Site, ...]]]:
    """The upper levels of the tree that fit as a whole."""
    tree = Tree.of([bare_info(site) for site in sites])
    nodes: list[int] = []
    for level in tree.levels():
        if nodes and len(nodes) + len(level) > most:
            break
        nodes += level
    nodes = sorted(nodes[:most])
    return [tree.path(node) for node in nodes], [tree.members(node) for node in nodes]


def _bucketings(steps: Sequence[Steps], most: int, align: str) -> list[Bucketing]:
    if align == "step":
        return [by_width(np.unique(np.concatenate(steps)), most)] * len(steps)
    return [
        Bucketing(int(s[-1] - s[0] + 1), int(s[0]), most) if s.size else Bucketing(1) for s in steps
    ]
