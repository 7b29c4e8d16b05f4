"""The overview of a run as a widget's page gets it: answers of the viewer's server, kept small.

Jupyter drops what a kernel sends if it is more than 1 MB a second.
"""

from collections.abc import Sequence

import gradwatch.view.data as data
from gradwatch.view.data import Answer, RunView

MAX_COLUMNS, MIN_COLUMNS = 240, 40
MAX_CELLS, MAX_POINTS = 40_000, 6_000
MAX_TREE_NODES = 20_000
MAX_FINDING_SITES = 20
MAX_RANK_NUMBERS, MAX_RANK_ROWS, MAX_RANK_COLUMNS = 4, 32, 120


def trees(view: RunView, run: Answer) -> list[Answer]:
    """The trees of the kinds, as many as are small enough; the page asks for the others."""
    made, space = [], MAX_TREE_NODES
    for kind in run["kinds"]:
        size = len(view.tree(kind["kind"]))
        if size <= space:
            space -= size
            made.append(data.tree(view, kind["kind"]))
    return made


def overview(view: RunView, run: Answer, wanted: Sequence[tuple[str, str]]) -> Answer:
    """`Overview` of `kernel.ts`: all of the run that fits, `wanted` heatmaps first.

    `run` is the answer to the page's request of that name.
    """
    found = [{**one, "sites": one["sites"][:MAX_FINDING_SITES]} for one in run["findings"]]
    curves = sum(len(view.run.sites(kind)) for kind in ("loss", "metric", "epoch_metric"))
    columns = max(MIN_COLUMNS // 2, min(MAX_COLUMNS, MAX_POINTS // max(1, curves)))
    return {
        "run": {**run, "findings": found},
        "heatmaps": _heatmaps(view, run["kinds"], wanted),
        "numbers": data.numbers(view, data.Window(MAX_COLUMNS), MAX_POINTS),
        "curves": data.curves([view], columns),
        "ranks": _ranks(view, run["processes"]),
    }


def _heatmaps(
    view: RunView, kinds: Sequence[Answer], wanted: Sequence[tuple[str, str]]
) -> list[Answer]:
    """Those that pages have asked for, the last first; then the first of each kind."""
    menus = {k["kind"]: [s["name"] for s in k["statistics"]] for k in kinds}
    firsts = [(kind, names[0]) for kind, names in menus.items()]
    possible = [(kind, name) for kind, name in wanted if name in menus.get(kind, ())]
    made: list[Answer] = []
    space = MAX_CELLS
    for kind, statistic in dict.fromkeys([*possible, *firsts]):
        nodes = view.tree(kind).upper_nodes(space // MIN_COLUMNS)
        if not nodes:
            break
        # Half of the space for each, as long as it lasts.
        columns = max(MIN_COLUMNS, min(MAX_COLUMNS, space // (2 * len(nodes))))
        space -= columns * len(nodes)
        revision = view.tree(kind).revision
        made.append(data.heatmap(view, kind, statistic, nodes, data.Window(columns), revision))
    return made


def _ranks(view: RunView, processes: Answer | None) -> list[Answer]:
    numbers = [] if processes is None else processes["numbers"]
    window = data.Window(MAX_RANK_COLUMNS)
    return [
        data.ranks(view, one["kind"], one["path"], window, MAX_RANK_ROWS)
        for one in numbers[:MAX_RANK_NUMBERS]
    ]
