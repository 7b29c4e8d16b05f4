"""The data endpoints: `/api/<name>` for each name."""

from collections.abc import Callable

import gradwatch.view.data as data
from gradwatch.diagnosis import Finding
from gradwatch.view.data import Answer, RunView
from gradwatch.view.web.background_diagnosis import BackgroundDiagnosis
from gradwatch.view.web.library import Library
from gradwatch.view.web.query_params import (
    MAX_CELLS,
    MAX_COMPARED_ROWS,
    QueryParams,
    check_cells,
)


class Endpoints:
    """The responses that `viewer/src/api/types.ts` describes, by the endpoint's name.

    `on_list` is called when the list of runs is requested.
    """

    def __init__(
        self,
        library: Library,
        diagnosis: BackgroundDiagnosis,
        version: str,
        on_list: Callable[[], None] = lambda: None,
    ) -> None:
        self._library, self._diagnosis = library, diagnosis
        self._version, self._on_list = version, on_list
        view = self._view
        self.by_name: dict[str, Callable[[QueryParams], Answer | bytes]] = {
            "runs": self._runs,
            "run": self._run,
            "tree": lambda p: data.tree(view(p), p.kind),
            "heatmap": self._heatmap,
            "numbers": lambda p: data.numbers(view(p), p.window, MAX_CELLS),
            "curves": lambda p: data.curves(self._several(p), p.columns),
            "ranks": self._ranks,
            "series": self._series,
            "distribution": lambda p: data.distribution(view(p), p.kind, p.path, p.window),
            "pictures": lambda p: data.pictures(view(p), p.path),
            "picture": lambda p: data.picture(view(p), p.path, p.step),
            "compare": self._compare,
            "compare-series": lambda p: data.compare_series(
                self._views(p), p.kind, p.path, p.statistic, p.align, p.columns
            ),
        }

    def _runs(self, params: QueryParams) -> Answer:
        self._on_list()
        return {
            "directory": self._library.directory,
            "version": self._version,
            "runs": self._library.entries(),
        }

    def _run(self, params: QueryParams) -> Answer:
        view = self._view(params)
        findings, is_complete = self._findings(view)
        return data.overview(view, findings, complete=is_complete)

    def _heatmap(self, params: QueryParams) -> Answer:
        nodes, window = params.nodes, params.window
        check_cells(len(nodes), window.columns)
        kind, statistic, revision = params.kind, params.statistic, params.revision
        return data.heatmap(self._view(params), kind, statistic, nodes, window, revision)

    def _ranks(self, params: QueryParams) -> Answer:
        rows, window = params.max_rows, params.window
        check_cells(rows, window.columns)
        return data.ranks(self._view(params), params.kind, params.path, window, rows)

    def _series(self, params: QueryParams) -> Answer:
        view = self._view(params)
        findings, _ = self._findings(view)
        return data.series(view, params.kind, params.path, params.window, findings)

    def _compare(self, params: QueryParams) -> Answer:
        views, columns = self._views(params), params.columns
        rows = max(1, min(MAX_COMPARED_ROWS, MAX_CELLS // (columns * len(views))))
        kind, statistic, align = params.kind, params.statistic, params.align
        return data.compare(views, kind, statistic, align, params.pattern, columns, rows)

    def _view(self, params: QueryParams) -> RunView:
        view = self._library.view(params.run)
        return view.with_rank(params.rank) if params.has_rank else view

    def _views(self, params: QueryParams) -> list[RunView]:
        return [self._library.view(id) for id in params.runs]

    def _several(self, params: QueryParams) -> list[RunView]:
        """One run or more, of the chosen rank."""
        views = [self._library.view(id) for id in params.some_runs]
        return [view.with_rank(params.rank) if params.has_rank else view for view in views]

    def _findings(self, view: RunView) -> tuple[list[Finding], bool]:
        return self._diagnosis.findings(view.id, view.run, self._library.signature(view.id))
