"""A notebook in a browser, as far as a widget sees it: a model, and an element to draw into."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Browser, FrameLocator

from gradwatch.view.web import load_module
from tests.view.chromium import Watched
from tests.view.serving import PATIENCE

_ADDRESS = "http://notebook.test/"
_PAGE = """<!doctype html><body style="background: BACKGROUND"><div id="output"></div>
<script type="module">
import widget from "./widget.js";
const state = {}, listeners = {};
const call = (event, content) => (listeners[event] ?? []).forEach((each) => each(content));
window.update = (changes) => {
  Object.assign(state, changes);
  Object.keys(changes).forEach((name) => call(`change:${name}`));
};
window.message = (content) => call("msg:custom", content);
const model = {
  get: (name) => state[name],
  on: (event, listener) => (listeners[event] ??= []).push(listener),
  off: (event, listener) => listeners[event].splice(listeners[event].indexOf(listener), 1),
  send: (content) => window.toKernel(content),
};
window.listening = () => Object.values(listeners).flat().length;
const el = document.getElementById("output");
window.show = () => { window.end = widget.render({ model, el }); };
window.isReady = true;
</script>"""


class NotebookPage(Watched):
    """A widget on a page. The kernel takes messages of the page only while `is_idle`."""

    def __init__(self, browser: Browser, widget: Any, background: str = "white") -> None:
        super().__init__(browser, viewport={"width": 1000, "height": 800})
        self.widget, self.is_idle = widget, True
        self.asked: list[Any] = []
        html, module = _PAGE.replace("BACKGROUND", background), load_module()
        self.page.route(_ADDRESS, lambda r: r.fulfill(body=html, content_type="text/html"))
        self.page.route(
            f"{_ADDRESS}widget.js", lambda r: r.fulfill(body=module, content_type="text/javascript")
        )
        self.page.expose_function("toKernel", lambda content: self.asked.append(content))
        self.page.goto(_ADDRESS)
        self.page.wait_for_function("window.isReady")
        state = {name: getattr(widget, name) for name in widget.keys if not name.startswith("_")}
        plain = {n: v for n, v in state.items() if isinstance(v, str | int)}
        self.page.evaluate("state => window.update(state)", plain)
        self.page.evaluate("window.show()")

    @property
    def frame(self) -> FrameLocator:
        return self.page.frame_locator("iframe[title=gradwatch]")

    def pump(self) -> None:
        """Deliver what the kernel has sent, and, if it is idle, what the page has."""
        while self.is_idle and self.asked:
            self.widget.comm.receive(self.asked.pop(0))
        for _ in range(self.widget.comm.sent.qsize()):
            sent = self.widget.comm.sent.get()
            if sent.get("method") == "update":
                self.page.evaluate("state => window.update(state)", sent["state"])
            elif sent.get("method") == "custom":
                content = json.loads(json.dumps(sent["content"]))
                self.page.evaluate("content => window.message(content)", content)
        self.page.wait_for_timeout(30)

    def until(self, is_so: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + PATIENCE
        while not (found := is_so()):
            assert time.monotonic() < deadline, self.text
            self.pump()
        return found

    def has(self, text: str) -> Any:
        """What waits until the page has a text."""
        return self.until(lambda: text in self.text)

    @property
    def text(self) -> str:
        return self.frame.locator("body").inner_text()

    def cells(self) -> dict[str, list[tuple[int, str, int]]]:
        """By path, of each column of the heatmap: first step, value, how many not finite."""
        button = self.frame.get_by_role("button", name="Table of the heatmap")
        if button.get_attribute("aria-pressed") != "true":
            button.click()
        rows = self.frame.locator(".heat-table tbody tr")
        self.until(lambda: rows.locator("td").count())
        found = rows.evaluate_all(
            "rows => rows.map(r => [r.dataset.path, [...r.querySelectorAll('td')].map(c => ["
            "Number(c.dataset.first), c.title, Number(c.dataset.nonfinite)])])",
        )
        return {path: [(a, b, c) for a, b, c in cells] for path, cells in found}
