"""What a report's page carries: answers to what it will ask, as much as there is room for."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

import gradwatch.view.data as data
from gradwatch.core import Kind
from gradwatch.diagnosis import Finding, findings_of
from gradwatch.view.data.tree import Tree
from gradwatch.view.report.candidates import Plotted, candidates
from gradwatch.view.report.room import Room
from gradwatch.view.report.row_choice import cut, upper_rows
from gradwatch.view.report.worst import worst_layers

MOST_BYTES = 8_000_000
"""How large the data of a page may be; the front end comes on top."""
CELLS = 60_000
"""How many cells the heatmap of a kind has at most."""
COLUMNS = 240
"""How many columns there are at most, and at least where rows are to be left out."""
FEWEST_COLUMNS = 40
SERIES, SERIES_COLUMNS = 120, 120
"""How many sites and layers have plots at most, and how many points these have."""
RANK_NUMBERS, RANK_ROWS = 4, 250
"""How many numbers are shown of each rank, and in how many rows at most."""
PICTURES = 12
"""How many pictures of a variable there are at most."""
SITES_OF_A_FINDING = 20
_WORST = 12
_STATISTICS = 5
"""How many statistics of a kind there are, where there is room for more than the first."""

Tell = Callable[[float, float], None]


def snapshot(
    view: data.RunView, version: str, tell: Tell = lambda done, of: None
) -> dict[str, Any]:
    """`Snapshot` of `types.ts`.

    Args:
        view: the run.
        version: of this library.
        tell: is told how far it is.
    """
    return _Maker(view, tell).make(version)


class _Maker:
    """Puts in first what matters most; what has no room left is counted."""

    def __init__(self, view: data.RunView, tell: Tell) -> None:
        self.view, self.tell = view, tell
        self.done, self.work = 0, 1
        self.room = Room(MOST_BYTES)
        self.left_out: list[str] = []
        self.trees: list[data.Answer] = []
        self.nodes: dict[str, list[int]] = {}

    def make(self, version: str) -> dict[str, Any]:
        findings = findings_of(self.view.run)
        run = data.overview(self.view, findings)
        for finding in run["findings"]:
            del finding["sites"][SITES_OF_A_FINDING:]
        trees = {Kind(each["kind"]): self.view.tree(each["kind"]) for each in run["kinds"]}
        wanted = candidates(trees, findings, self._worst(run["findings"]))
        numbers = data.numbers(self.view, data.Window(COLUMNS))
        if not self.room.take(numbers):
            numbers = {"numbers": []}
            self.left_out.append("losses and other numbers")
        ranks = self._ranks(run["processes"])
        heatmaps = self._heatmaps(run["kinds"], wanted)
        series = self._series(wanted, findings)
        distributions = self._distributions(series)
        pictures = self._pictures(run["pictured"])
        run["pictured"] = [each["path"] for each in pictures]
        if self.left_out:
            words = "; ".join(self.left_out)
            run["facts"].append({"name": "left out of this report", "value": words})
        return {
            "version": version,
            "made": time.time(),
            "run": run,
            "trees": self.trees,
            "heatmaps": heatmaps,
            "numbers": numbers,
            "ranks": ranks,
            "series": series,
            "distributions": distributions,
            "pictures": pictures,
        }

    def _ranks(self, processes: data.Answer | None) -> list[data.Answer]:
        """The first few numbers that each rank has of its own."""
        made: list[data.Answer] = []
        named = [] if processes is None else processes["numbers"]
        for one in named[:RANK_NUMBERS]:
            window = data.Window(COLUMNS)
            found = data.ranks(self.view, one["kind"], one["path"], window, RANK_ROWS)
            if self.room.take(found):
                made.append(found)
        if len(made) < len(named):
            self.left_out.append(f"{len(named) - len(made):,} of {len(named):,} numbers of ranks")
        return made

    def _step(self) -> None:
        self.tell(self.done, self.work)
        self.done += 1

    def _worst(self, findings: Sequence[data.Answer]) -> dict[str, str]:
        own = data.all_layer_rows(self.view.run, 1, self.view.one_rank)
        return worst_layers(own, findings, _WORST)

    def _heatmaps(self, kinds: Sequence[data.Answer], wanted: list[Plotted]) -> list[data.Answer]:
        """The first statistic of all kinds, then their second, ..."""
        names = [[(k["kind"], s["name"]) for s in k["statistics"][:_STATISTICS]] for k in kinds]
        rounds = [each for one in zip_longest(*names) for each in one if each is not None]
        made: list[data.Answer] = []
        self.work = len(rounds) + min(len(wanted), SERIES)
        for i, (kind, statistic) in enumerate(rounds):
            self._step()
            if i < len(kinds):
                self._tree(kind, [path for own, path in wanted if own == kind])
            nodes = self.nodes.get(kind)
            # Half of the room is for plots.
            if nodes and (i < len(kinds) or self.room.left > MOST_BYTES // 2):
                window = data.Window(_columns(len(nodes)))
                heatmap = data.heatmap(self.view, kind, statistic, nodes, window)
                heatmap["rows"] = list(range(len(nodes)))
                if self.room.take(heatmap):
                    made.append(heatmap)
                elif i < len(kinds):
                    self.left_out.append(f"the heatmap of {kind}")
        return made

    def _tree(self, kind: str, paths: Sequence[str]) -> None:
        """The rows of a kind: as many as there may be, or else half as many, ..."""
        tree, answer = self.view.tree(kind), data.tree(self.view, kind)
        named = list(_nodes_of(tree, paths[:SERIES]))
        most = CELLS // FEWEST_COLUMNS
        while most > 0:
            nodes = upper_rows(tree, most, named)
            made = cut(answer, nodes)
            if self.room.take(made):
                self.trees.append(made)
                self.nodes[kind] = nodes
                break
            most = min(most, len(tree)) // 2
        kept = len(self.nodes.get(kind, ()))
        if kept < len(tree):
            self.left_out.append(f"{len(tree) - kept:,} of {len(tree):,} rows of {kind}")

    def _series(self, wanted: Sequence[Plotted], findings: Sequence[Finding]) -> list[data.Answer]:
        made: list[data.Answer] = []
        window = data.Window(SERIES_COLUMNS)
        for kind, path in wanted[:SERIES]:
            self._step()
            series = data.series(self.view, str(kind), path, window, findings)
            if self.room.take(series):
                made.append(series)
        if len(made) < len(wanted):
            left = len(wanted) - len(made)
            self.left_out.append(f"plots of {left:,} of {len(wanted):,} sites and layers")
        return made

    def _distributions(self, series: Sequence[data.Answer]) -> list[data.Answer]:
        made: list[data.Answer] = []
        taken = [each for each in series if each["histogram_steps"]]
        for each in taken:
            found = data.distribution(
                self.view, each["kind"], each["path"], data.Window(SERIES_COLUMNS // 2)
            )
            if self.room.take(found):
                made.append(found)
            else:
                each["histogram_steps"] = []
        if len(made) < len(taken):
            self.left_out.append(f"histograms of {len(taken) - len(made):,} of {len(taken):,}")
        return made

    def _pictures(self, paths: Sequence[str]) -> list[dict[str, Any]]:
        made = []
        for path in paths:
            steps, files = self.view.run.pictures(path, rank=self.view.rank)
            # The first, the last, and some between them at even distances.
            chosen = np.unique(np.linspace(0, len(files) - 1, min(len(files), PICTURES)).round())
            places = chosen.astype(int).tolist()
            pngs = [base64.b64encode(files[i]).decode("ascii") for i in places]
            part = {"path": path, "steps": [int(steps[i]) for i in places], "png": pngs}
            if self.room.take(part):
                made.append(part)
        if len(made) < len(paths):
            self.left_out.append(f"pictures of {len(paths) - len(made):,} of {len(paths):,}")
        return made


def _columns(rows: int) -> int:
    return max(FEWEST_COLUMNS, min(COLUMNS, CELLS // max(rows, 1)))


def _nodes_of(tree: Tree, paths: Sequence[str]) -> Iterator[int]:
    wanted = set(paths)
    by_path = {site.path: node for site, node in tree.node_of.items() if site.path in wanted}
    for path in paths:
        if path in by_path:
            yield by_path[path]
