"""The layers of a network in so few rows that one can look at them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Kind, Site
from gradwatch.read import Run
from gradwatch.view.glance.layer_rows import gradient_kind, is_of_network, without_root

Values = NDArray[np.float64]

MOST = 40
"""How many rows there are at most."""


@dataclass(frozen=True, eq=False)
class Folded:
    """The L2 norm of layers, or of the blocks that they are in, over time.

    Attributes:
        kind: of what.
        names: the rows', in network order.
        first, last: the first and the last step.
        values: rows by columns; NaN where nothing was measured.
        marked: the cells in which an element was not finite.
    """

    kind: Kind
    names: list[str]
    first: int
    last: int
    values: Values
    marked: NDArray[np.bool_]


def by_layer(run: Run, columns: int, rank: int) -> Folded | None:
    """The gradients of a run, or else what it has; None if it has nothing of a network."""
    own = [site for site in run.sites() if is_of_network(site)]
    kind = gradient_kind(own) or next((site.kind for site in own), None)
    sites = [site for site in own if site.kind is kind]
    if kind is None or not run.steps(kind, rank).size:
        return None
    rows = _rows(sites)
    names = list(dict.fromkeys(rows.values()))
    place = {name: i for i, name in enumerate(names)}
    chosen = set(sites)
    found = run.heatmap(
        kind,
        "l2",
        max_cells=columns * len(sites),
        pattern=lambda info: info.site in chosen,
        rank=rank,
    )
    at = np.array([place[rows[site]] for site in found.sites])
    squares = np.zeros((len(names), found.values.shape[1]))
    measured, marked = np.zeros(squares.shape, bool), np.zeros(squares.shape, bool)
    with np.errstate(over="ignore"):
        np.add.at(squares, at, np.nan_to_num(found.values, posinf=np.inf) ** 2)
    np.logical_or.at(measured, at, ~np.isnan(found.values))
    np.logical_or.at(marked, at, found.nonfinite > 0)
    return Folded(
        kind,
        names,
        int(found.first[0]),
        int(found.last[-1]),
        np.where(measured, np.sqrt(squares), np.nan),
        marked,
    )


def _rows(sites: list[Site]) -> dict[Site, str]:
    """The row of each site: its layer; or of many layers their block, or neighbouring blocks."""
    paths = list(dict.fromkeys(site.layer for site in sites))
    parts = dict(zip(paths, (name.split("/") for name in without_root(paths)), strict=True))
    names = {path: "/".join(own) for path, own in parts.items()}
    for depth in range(max(map(len, parts.values())), 0, -1):
        if len(set(names.values())) <= MOST:
            break
        names = {path: "/".join(own[:depth]) for path, own in parts.items()}
    blocks = list(dict.fromkeys(names.values()))
    each = -(-len(blocks) // MOST)
    if each > 1:
        groups = [blocks[i : i + each] for i in range(0, len(blocks), each)]
        joined = {b: f"{g[0]} to {g[-1]}" if len(g) > 1 else b for g in groups for b in g}
        names = {path: joined[name] for path, name in names.items()}
    return {site: names[site.layer] for site in sites}


def strongest(
    values: Values, marked: NDArray[np.bool_], most: int
) -> tuple[Values, NDArray[np.bool_], int]:
    """Of neighbouring columns the value of the largest magnitude, in at most so many columns.

    What is marked in any of them stays marked.

    Returns:
        Values, marks, and how many columns each is of.

    Example:

    >>> import numpy as np
    >>> from gradwatch.view.notebook.folding import strongest
    >>> values = np.array([[1.0, -3.0, np.nan, np.nan, 2.0]])
    >>> strongest(values, np.isnan(values), 3)[0]
    array([[-3., nan,  2.]])
    """
    each = max(1, -(-values.shape[1] // most))
    starts = np.arange(0, values.shape[1], each)
    if each == 1:
        return values, marked, each
    pad = [(0, 0), (0, starts.size * each - values.shape[1])]
    groups = np.pad(values, pad, constant_values=np.nan).reshape(values.shape[0], -1, each)
    at = np.where(np.isnan(groups), -1.0, np.abs(groups)).argmax(axis=2)
    chosen = np.take_along_axis(groups, at[:, :, None], axis=2)[:, :, 0]
    bad = np.pad(marked, pad).reshape(values.shape[0], -1, each)
    return chosen, np.asarray(bad.any(axis=2)), each
