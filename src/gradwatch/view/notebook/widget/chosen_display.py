"""From a run, or a monitor that will make one, to what a notebook shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradwatch.read import Run
from gradwatch.util import say
from gradwatch.view.notebook.widget.live_feed import Found
from gradwatch.view.notebook.widget.static_display import StaticDisplay

HEIGHT = 640


def run_widget(run: Run, height: int = HEIGHT) -> Any:
    """A widget of a run, which has a view of its own: the user's stays as it was opened."""
    found = run if hasattr(run, "url") else run.path
    return live_widget(lambda: found, lambda: False, height)


def live_widget(
    find: Callable[[], Found], may_go_on: Callable[[], bool], height: int = HEIGHT
) -> Any:
    """A widget of the run that `find` finds, which may not be there yet.

    `may_go_on` says whether a run that is not live may be continued, or another one begin. Where
    anywidget is not installed, it is what can be shown without.
    """
    if isinstance(height, bool) or not isinstance(height, int) or not 200 <= height <= 5000:
        raise ValueError(f"height must be 200 to 5000 pixels. Received: {height!r}")
    try:
        from gradwatch.view.notebook.widget.run_widget import RunWidget
    except ModuleNotFoundError as error:
        if error.name not in ("anywidget", "ipywidgets", "traitlets"):
            raise
        say(
            "The widget needs anywidget: pip install 'gradwatch[notebook]'. Without it, the run is "
            "shown as it is now."
        )
        return StaticDisplay(find)
    return RunWidget(find, may_go_on, height)
