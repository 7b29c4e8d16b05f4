"""The widget itself; importing this module needs anywidget."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import anywidget
import traitlets

from gradwatch.view.notebook.widget.live_feed import Found, LiveFeed
from gradwatch.view.notebook.widget.static_display import html_of
from gradwatch.view.report import frame_page
from gradwatch.view.web import load, load_module


class RunWidget(anywidget.AnyWidget):  # type: ignore[misc]
    """The viewer's page of one run, which is live while the run is recorded.

    Attributes:
        page: the page's HTML.
        height: in pixels.
        said: what is shown as long as there is no run.
        trees, overview: JSON, see `live_overview`.
    """

    page = traitlets.Unicode().tag(sync=True)
    height = traitlets.Int().tag(sync=True)
    said = traitlets.Unicode().tag(sync=True)
    trees = traitlets.Unicode().tag(sync=True)
    overview = traitlets.Unicode().tag(sync=True)

    def __init__(
        self, find: Callable[[], Found], may_go_on: Callable[[], bool], height: int
    ) -> None:
        self._esm = load_module()
        self._find = find
        super().__init__(page=_page(), height=height)
        weak = weakref.ref(self)

        # The thread must not keep a widget alive that nobody has.
        def send(properties: dict[str, str]) -> bool:
            widget = weak()
            return widget is not None and widget._take(properties)

        self._feed = LiveFeed(find, may_go_on, send)
        self._end = weakref.finalize(self, self._feed.close)
        self.on_msg(_answer)
        self._feed.start()

    def close(self) -> None:
        """End it, here and on the page."""
        super().close()
        self._end()

    def _take(self, properties: dict[str, str]) -> bool:
        """Show these; False if the widget is closed."""
        if self.comm is None:
            return False
        with self.hold_sync():
            for name, text in properties.items():
                setattr(self, name, text)
        return True

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        self._feed.start()  # The run may have been continued.
        found = super()._repr_mimebundle_(**kwargs)
        if found is None:
            return None
        data, metadata = found
        # For where there is no kernel: a notebook on a web page.
        return {**data, "text/html": html_of(self._find())}, metadata


def _page() -> str:
    """The viewer's page, whole; NotBuiltError if the front end is not built."""
    files = load()
    script, style = (files[name][0].decode("utf-8") for name in ("/app.js", "/app.css"))
    return frame_page(script, style)


def _answer(widget: RunWidget, content: Any, buffers: Any) -> None:
    """A request of the page, which the kernel hands over when no cell runs."""
    if not isinstance(content, dict) or not isinstance(content.get("parameters"), dict):
        return
    status, answer = widget._feed.answer(str(content.get("name")), content["parameters"])
    widget.send({"id": str(content.get("id")), "status": status, "answer": answer})
