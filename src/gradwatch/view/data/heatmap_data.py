"""A statistic of the rows of a tree over time."""

from collections.abc import Sequence

from gradwatch.read import RowGroups, RowTable
from gradwatch.view.data.plain import Answer, doubles, sparse, whole
from gradwatch.view.data.run_view import RunView, StaleTreeError, Window


def tree(view: RunView, kind: str) -> Answer:
    """`Tree` of `types.ts`."""
    found = view.tree(kind)
    return {
        "kind": kind,
        "revision": found.revision,
        "label": found.label,
        "parent": found.parent,
        "site": [site is not None for site in found.sites],
        "count": found.count,
        "shape": found.shape,
    }


def heatmap(
    view: RunView,
    kind: str,
    statistic: str,
    nodes: Sequence[int],
    window: Window,
    revision: str | None = None,
) -> Answer:
    """`HeatmapData` of `types.ts`; its rows are nodes of the tree, by number.

    StaleTreeError is raised if the tree has another revision than the given one, ValueError if
    there is no such statistic or node.
    """
    found = view.tree(kind)
    if revision is not None and revision != found.revision:
        raise StaleTreeError("Other sites are recorded now: request the tree again.")
    if not nodes or not all(0 <= node < len(found) for node in nodes):
        raise ValueError(f"Rows are nodes of the tree, 0 to {len(found) - 1}.")
    table, columns, kept = row_table(view, kind, found.rows(nodes), [statistic], window)
    return {
        "kind": kind,
        "statistic": statistic,
        "revision": found.revision,
        **columns,
        "rows": list(nodes),
        "values": doubles(table.shown[statistic][:, kept]),
        "nonfinite": sparse(table.nonfinite[:, kept]),
    }


def row_table(
    view: RunView, kind: str, rows: RowGroups, statistics: Sequence[str], window: Window
) -> tuple[RowTable, Answer, slice]:
    """The statistics of rows, their `Columns` of `types.ts`, and which columns these are."""
    chosen = view.kind(kind)
    steps = view.steps(chosen)
    window = window.around(steps)
    bucketing = window.bucketing(steps)
    table = view.run.row_table(chosen, rows, statistics, bucketing, window.stretch, view.rank)
    kept = window.changed(bucketing, table.last)
    columns = {
        "first": whole(table.first[kept]),
        "last": whole(table.last[kept]),
        "width": bucketing.span,
        "complete": window.is_complete(bucketing),
    }
    return table, columns, kept
