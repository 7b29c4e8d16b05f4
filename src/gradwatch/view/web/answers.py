"""From what a request asks for to its answer."""

from __future__ import annotations

from collections.abc import Callable

import gradwatch.view.data as data
from gradwatch.diagnosis import Finding
from gradwatch.view.data import Answer, Shown
from gradwatch.view.web.asked import CELLS, COMPARED, Asked, check_cells
from gradwatch.view.web.diagnoses import Diagnoses
from gradwatch.view.web.library import Library

ALIGNMENTS = ("step", "fraction")


class Answers:
    """The answers that `viewer/src/api/types.ts` describes, by the request's name.

    Args:
        library: the runs.
        diagnoses: what is wrong with them.
        version: gradwatch's.
        wake: called when the list is asked for.
    """

    def __init__(
        self,
        library: Library,
        diagnoses: Diagnoses,
        version: str,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._library, self._diagnoses = library, diagnoses
        self._version, self._wake = version, wake
        self.by_name: dict[str, Callable[[Asked], Answer]] = {
            "runs": self.runs,
            "run": self.run,
            "tree": self.tree,
            "select": self.select,
            "heatmap": self.heatmap,
            "numbers": self.numbers,
            "ranks": self.ranks,
            "series": self.series,
            "distribution": self.distribution,
            "pictures": self.pictures,
            "compare": self.compare,
            "compare-series": self.compare_series,
        }

    def runs(self, asked: Asked) -> Answer:
        """`Runs`."""
        self._wake()
        return {
            "directory": self._library.given,
            "version": self._version,
            "runs": self._library.entries(),
        }

    def run(self, asked: Asked) -> Answer:
        """`RunData`."""
        shown = self._shown(asked)
        findings, is_all = self._findings(shown)
        return data.overview(shown, findings, complete=is_all)

    def tree(self, asked: Asked) -> Answer:
        """`Tree`."""
        return data.tree(self._shown(asked), asked.text("kind"))

    def select(self, asked: Asked) -> Answer:
        """`Selection`."""
        return data.selection(self._shown(asked), asked.text("kind"), asked.pattern())

    def heatmap(self, asked: Asked) -> Answer:
        """`HeatmapData`."""
        rows, window = asked.rows(), asked.window()
        check_cells(len(rows), window.columns)
        return data.heatmap(
            self._shown(asked),
            asked.text("kind"),
            asked.text("statistic"),
            rows,
            window,
            asked.text("revision"),
        )

    def numbers(self, asked: Asked) -> Answer:
        """`NumbersData`."""
        return data.numbers(self._shown(asked), asked.window(), most_cells=CELLS)

    def ranks(self, asked: Asked) -> Answer:
        """`RanksData`."""
        rows, window = asked.most_rows(), asked.window()
        check_cells(rows, window.columns)
        kind, path = asked.text("kind"), asked.text("path")
        return data.ranks(self._shown(asked), kind, path, window, rows)

    def series(self, asked: Asked) -> Answer:
        """`SeriesData`."""
        shown = self._shown(asked)
        kind, path, window = asked.text("kind"), asked.text("path"), asked.window()
        return data.series(shown, kind, path, window, self._findings(shown)[0])

    def distribution(self, asked: Asked) -> Answer:
        """`DistributionData`."""
        kind, path = asked.text("kind"), asked.text("path")
        return data.distribution(self._shown(asked), kind, path, asked.window())

    def pictures(self, asked: Asked) -> Answer:
        """`PicturesData`."""
        return data.pictures(self._shown(asked), asked.text("path"))

    def picture(self, asked: Asked) -> bytes:
        """A PNG file."""
        return data.picture(self._shown(asked), asked.text("path"), asked.whole("step"))

    def compare(self, asked: Asked) -> Answer:
        """`ComparisonData`."""
        several = [self._library.shown(id) for id in asked.runs()]
        columns = asked.columns()
        rows = max(1, min(COMPARED, CELLS // (columns * len(several))))
        return data.compare(
            several,
            asked.text("kind"),
            asked.text("statistic"),
            asked.among("align", ALIGNMENTS),
            asked.pattern(),
            columns,
            rows,
        )

    def compare_series(self, asked: Asked) -> Answer:
        """`ComparedSeries`."""
        return data.compare_series(
            [self._library.shown(id) for id in asked.runs()],
            asked.text("kind"),
            asked.text("path"),
            asked.text("statistic"),
            asked.among("align", ALIGNMENTS),
            asked.columns(),
        )

    def _shown(self, asked: Asked) -> Shown:
        shown = self._library.shown(asked.text("run"))
        return shown.of_rank(asked.rank()) if asked.has("rank") else shown

    def _findings(self, shown: Shown) -> tuple[list[Finding], bool]:
        return self._diagnoses.of(shown.id, shown.run, self._library.key(shown.id))
