"""How objects display themselves in notebooks.

Runs, readings, diagnoses, comparisons and inspections lie below `gradwatch.view` and do not import
it. The package `gradwatch` passes the view's notebook module in here.
"""

from collections.abc import Callable
from typing import Any, Protocol


class Displays(Protocol):
    """What `gradwatch.view.notebook` offers."""

    RunPlots: Any
    plot_heatmap: Any
    plot_comparison: Any
    plot_coordinates: Any

    def run_html(self, run: Any) -> str: ...
    def runs_html(self, runs: Any) -> str: ...
    def comparison_html(self, comparison: Any) -> str: ...
    def heatmap_html(self, heatmap: Any) -> str: ...
    def inspection_html(self, inspection: Any) -> str: ...
    def readings_html(self, readings: Any, note: str = "") -> str: ...
    def diagnosis_html(self, diagnosis: Any) -> str: ...
    def run_widget(self, run: Any, height: int) -> Any: ...
    def live_widget(self, find: Any, may_go_on: Any, height: int) -> Any: ...


_load: Callable[[], Any] | None = None


def use(load: Callable[[], Any]) -> None:
    """Set the function that imports the module of notebook displays."""
    global _load
    _load = load


def notebook() -> Displays:
    """The module of notebook displays, imported on first use."""
    assert _load is not None, "gradwatch sets it on import."
    displays: Displays = _load()
    return displays
