"""The data of a report's page: the responses that its script will request, within a size."""

import base64
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest

import numpy as np

import gradwatch.view.data as data
from gradwatch.core import Kind
from gradwatch.diagnosis import Finding, findings_of
from gradwatch.view.data import Answer
from gradwatch.view.report.page import to_inert_json
from gradwatch.view.report.plot_order import Plot, plot_order
from gradwatch.view.report.worst_layers import MAX_LAYERS, worst_layers

MAX_BYTES = 8_000_000
"""The largest size of a page's data; the front end comes on top."""
MAX_CELLS = 60_000
MAX_COLUMNS, MIN_COLUMNS = 240, 40
"""The most columns, and the fewest: below, rows are left out instead."""
MAX_SERIES, SERIES_COLUMNS = 120, 120
MAX_RANK_NUMBERS, MAX_RANK_ROWS = 4, 250
MAX_PICTURES = 12
MAX_FINDING_SITES = 20
_STATISTICS = 5
"""How many statistics of a kind there are if there is space for more than the first."""

Progress = Callable[[float, float], None]


def snapshot(
    view: data.RunView, version: str, progress: Progress = lambda done, total: None
) -> Answer:
    """`Snapshot` of `types.ts`; `progress` gets the work done and the whole work."""
    return _PageData(view, progress).make(version)


class _PageData:
    """Adds the most important parts first, and lists the parts that do not fit."""

    def __init__(self, view: data.RunView, progress: Progress) -> None:
        self.view, self.progress = view, progress
        self.done, self.work = 0, 1
        self.space = MAX_BYTES
        self.left_out: list[str] = []
        self.trees: list[Answer] = []
        self.nodes: dict[str, list[int]] = {}

    def make(self, version: str) -> Answer:
        findings = findings_of(self.view.run)
        run = data.overview(self.view, findings)
        for finding in run["findings"]:
            del finding["sites"][MAX_FINDING_SITES:]
        layers = data.all_layer_rows(self.view.run, 1, self.view.one_rank)
        worst = worst_layers(layers, run["findings"], MAX_LAYERS)
        trees = {Kind(each["kind"]): self.view.tree(each["kind"]) for each in run["kinds"]}
        plots = plot_order(trees, findings, worst)
        numbers = data.numbers(self.view, data.Window(MAX_COLUMNS))
        if not self._fits(numbers):
            numbers = {"numbers": []}
            self.left_out.append("losses and other numbers")
        curves = data.curves([self.view], MAX_COLUMNS)
        if not self._fits(curves):
            curves = {"runs": []}
            self.left_out.append("losses and metrics")
        ranks = self._ranks(run["processes"])
        heatmaps = self._heatmaps(run["kinds"], plots)
        series = self._series(plots, findings)
        distributions = self._distributions(series)
        pictures = self._fitting(
            map(self._pictures, run["pictured"]), len(run["pictured"]), "pictures of {}"
        )
        run["pictured"] = [each["path"] for each in pictures]
        if self.left_out:
            left_out = "; ".join(self.left_out)
            run["facts"].append({"name": "left out of this report", "value": left_out})
        return {
            "version": version,
            "made": time.time(),
            "run": run,
            "trees": self.trees,
            "heatmaps": heatmaps,
            "numbers": numbers,
            "curves": curves,
            "ranks": ranks,
            "series": series,
            "distributions": distributions,
            "pictures": pictures,
        }

    def _fits(self, part: Answer) -> bool:
        """Take the space of a part, if there is enough."""
        size = len(to_inert_json(part)) + 1  # and a comma
        if size > self.space:
            return False
        self.space -= size
        return True

    def _fitting(self, parts: Iterable[Answer], total: int, label: str) -> list[Answer]:
        """The parts that fit; how many of the total do not is listed under the label."""
        made = [part for part in parts if self._fits(part)]
        if len(made) < total:
            self.left_out.append(label.format(f"{total - len(made):,} of {total:,}"))
        return made

    def _step(self) -> None:
        self.progress(self.done, self.work)
        self.done += 1

    def _ranks(self, processes: Answer | None) -> list[Answer]:
        """The first numbers that each rank has recorded for itself."""
        named = [] if processes is None else processes["numbers"]
        window = data.Window(MAX_COLUMNS)
        made = (
            data.ranks(self.view, one["kind"], one["path"], window, MAX_RANK_ROWS)
            for one in named[:MAX_RANK_NUMBERS]
        )
        return self._fitting(made, len(named), "{} numbers of ranks")

    def _heatmaps(self, kinds: Sequence[Answer], plots: Sequence[Plot]) -> list[Answer]:
        """The first statistic of all kinds, then their second, ..."""
        names = [[(k["kind"], s["name"]) for s in k["statistics"][:_STATISTICS]] for k in kinds]
        rounds = [each for one in zip_longest(*names) for each in one if each is not None]
        made: list[Answer] = []
        self.work = len(rounds) + min(len(plots), MAX_SERIES)
        for i, (kind, statistic) in enumerate(rounds):
            self._step()
            is_first = i < len(kinds)
            if is_first:
                self._tree(kind, [path for own, path in plots if own == kind])
            nodes = self.nodes.get(kind)
            # Half of the space is for plots.
            if nodes and (is_first or self.space > MAX_BYTES // 2):
                columns = max(MIN_COLUMNS, min(MAX_COLUMNS, MAX_CELLS // len(nodes)))
                heatmap = data.heatmap(self.view, kind, statistic, nodes, data.Window(columns))
                heatmap["rows"] = list(range(len(nodes)))
                if self._fits(heatmap):
                    made.append(heatmap)
                elif is_first:
                    self.left_out.append(f"the heatmap of {kind}")
        return made

    def _tree(self, kind: str, paths: Sequence[str]) -> None:
        """The rows of a kind: as many as allowed, or half as many, ..., until they fit."""
        tree, answer = self.view.tree(kind), data.tree(self.view, kind)
        by_path = {site.path: node for site, node in tree.node_of.items()}
        plotted = [by_path[path] for path in paths[:MAX_SERIES] if path in by_path]
        most = MAX_CELLS // MIN_COLUMNS
        while most > 0:
            nodes = tree.upper_nodes(most, plotted)
            made = _with_nodes(answer, nodes)
            if self._fits(made):
                self.trees.append(made)
                self.nodes[kind] = nodes
                break
            most = min(most, len(tree)) // 2
        missing = len(tree) - len(self.nodes.get(kind, ()))
        if missing:
            self.left_out.append(f"{missing:,} of {len(tree):,} rows of {kind}")

    def _series(self, plots: Sequence[Plot], findings: Sequence[Finding]) -> list[Answer]:
        def series(plot: Plot) -> Answer:
            self._step()
            kind, path = plot
            return data.series(self.view, str(kind), path, data.Window(SERIES_COLUMNS), findings)

        made = map(series, plots[:MAX_SERIES])
        return self._fitting(made, len(plots), "plots of {} sites and layers")

    def _distributions(self, series: Sequence[Answer]) -> list[Answer]:
        recorded = [each for each in series if each["histogram_steps"]]
        window = data.Window(SERIES_COLUMNS // 2)
        made = (data.distribution(self.view, s["kind"], s["path"], window) for s in recorded)
        fitting = self._fitting(made, len(recorded), "histograms of {}")
        kept = {(each["kind"], each["path"]) for each in fitting}
        for each in recorded:
            if (each["kind"], each["path"]) not in kept:
                each["histogram_steps"] = []
        return fitting

    def _pictures(self, path: str) -> Answer:
        """The first and the last picture, and some between them at even distances."""
        steps, files = self.view.run.pictures(path, rank=self.view.rank)
        evenly = np.linspace(0, len(files) - 1, min(len(files), MAX_PICTURES)).round()
        chosen = np.unique(evenly).astype(int).tolist()
        return {
            "path": path,
            "steps": [int(steps[i]) for i in chosen],
            "png": [base64.b64encode(files[i]).decode("ascii") for i in chosen],
        }


def _with_nodes(tree: Answer, nodes: Sequence[int]) -> Answer:
    """`Tree` of `types.ts` with only these nodes, renumbered; it must have their parents."""
    numbers = {node: number for number, node in enumerate(nodes)}
    parents = [numbers.get(tree["parent"][node], -1) for node in nodes]
    lists = {
        name: [tree[name][node] for node in nodes] for name in ("label", "site", "count", "shape")
    }
    return {"kind": tree["kind"], "revision": tree["revision"], **lists, "parent": parents}
