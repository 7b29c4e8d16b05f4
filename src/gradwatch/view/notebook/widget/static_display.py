"""A run as HTML, where there is no widget."""

from collections.abc import Callable
from pathlib import Path

from gradwatch.read import Run, is_run
from gradwatch.view.notebook import markup
from gradwatch.view.notebook.run_html import run_html

NO_RUN = "There is no run yet: it appears here when training begins."


class StaticDisplay:
    """Shows a run as of when it is displayed."""

    def __init__(self, find: Callable[[], Path | Run | None]) -> None:
        self._find = find

    def _repr_html_(self) -> str:
        return html_of(self._find())

    def close(self) -> None:
        """Nothing is open."""


def html_of(found: Path | Run | None) -> str:
    """The run as HTML, or that there is none yet."""
    if isinstance(found, Run):
        return run_html(found)
    if found is None or not is_run(found):
        return markup.whole(markup.line(markup.text(NO_RUN)))
    with Run(found) as run:
        return run_html(run)
