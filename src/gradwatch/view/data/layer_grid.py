"""The gradients of a network's layers over time, in few rows."""

from gradwatch.core import Site
from gradwatch.read import RowGroups, Run, by_width
from gradwatch.util import without_root
from gradwatch.view.data.cell_grid import CellGrid, step_grid
from gradwatch.view.data.colour_scale import scale_for
from gradwatch.view.data.layer_data import gradient_kind, is_of_network
from gradwatch.view.data.quantity import quantity

MAX_ROWS = 40


def layer_grid(run: Run, columns: int, rank: int) -> CellGrid | None:
    """The L2 norm of the gradients of each layer, or of blocks of layers, over time.

    Of a run without gradients another kind; None if it has measured nothing of a network.
    """
    own = [site for site in run.sites() if is_of_network(site)]
    kind = gradient_kind(own) or next((site.kind for site in own), None)
    if kind is None or not (steps := run.steps(kind, rank)).size:
        return None
    rows: dict[str, list[Site]] = {}
    for name, site in _rows([site for site in own if site.kind is kind]):
        rows.setdefault(name, []).append(site)
    bucketing = by_width(steps, columns)
    table = run.row_table(kind, RowGroups.of(list(rows.values())), ["l2"], bucketing, rank=rank)
    values, label = table.shown["l2"], quantity(kind, "l2").label
    ends = table.first, table.last
    return step_grid(list(rows), values, table.nonfinite, ends, label, scale_for(values, "log"))


def _rows(sites: list[Site]) -> list[tuple[str, Site]]:
    """The row of each site: its layer, or else its block, or else several blocks."""
    paths = list(dict.fromkeys(site.layer for site in sites))
    parts = dict(zip(paths, (name.split("/") for name in without_root(paths)), strict=True))
    names = {path: "/".join(own) for path, own in parts.items()}
    for depth in range(max(map(len, parts.values())), 0, -1):
        if len(set(names.values())) <= MAX_ROWS:
            break
        names = {path: "/".join(own[:depth]) for path, own in parts.items()}
    blocks = list(dict.fromkeys(names.values()))
    size = -(-len(blocks) // MAX_ROWS)
    if size > 1:
        groups = [blocks[i : i + size] for i in range(0, len(blocks), size)]
        joined = {b: f"{g[0]} to {g[-1]}" if len(g) > 1 else b for g in groups for b in g}
        names = {path: joined[name] for path, name in names.items()}
    return [(names[site.layer], site) for site in sites]
