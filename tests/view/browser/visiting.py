"""A person at a browser: opens pages of a real server, reads them, and notices what is wrong."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from playwright.sync_api import Browser, Request

from gradwatch.view.web.server import Server
from tests.view.chromium import Watched
from tests.view.serving import PATIENCE

ROOT = Path(__file__).parents[3]
DRAWN = """() => new Promise((done) => {
  const later = (rest) => rest === 0 ? done()
    : requestAnimationFrame(() => setTimeout(() => later(rest - 1), 20));
  later(3);
})"""
"""Goes on when the page has drawn thrice, however slow it is: it has asked for what it wants."""


@contextmanager
def writing(directory: Path) -> Iterator[Callable[[int], None]]:
    """A process that writes a run; what is yielded has it write up to a step."""
    command = [sys.executable, "-m", "tests.view.browser.writer", str(directory)]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, **pipes) as process:

        def write(step: int) -> None:
            process.stdin.write(f"{step}\n")
            process.stdin.flush()
            assert process.stdout.readline() == f"{step}\n"

        write.process = process  # type: ignore[attr-defined]
        yield write
        process.stdin.close()
        process.wait(PATIENCE)


def run_ids(server: Server) -> dict[str, str]:
    """The ids of runs by their names."""
    return {name: id for id, name in server.library.names.items()}


def site_route(run: str, kind: str, path: str, more: str = "") -> str:
    return f"/run/{run}/site?kind={kind}&path={quote(path, safe='', errors='replace')}{more}"


class Visit(Watched):
    """A page of a server, in a browser that has been given a session."""

    def __init__(self, browser: Browser, server: Server, **options: Any) -> None:
        super().__init__(browser, **{"viewport": {"width": 1280, "height": 900}, **options})
        self.server = server
        self.allowed: tuple[str, ...] = ()
        self._pending: set[Request] = set()
        self._count = 0
        self.page.on("request", self._began)
        self.page.on("requestfinished", self._ended)
        self.page.on("requestfailed", self._ended)
        session = server.logins.exchange(server.logins.token)
        cookie = {"name": f"gradwatch-{server.port}", "value": session, "url": server.address}
        self.page.context.add_cookies([cookie])

    def go(self, route: str) -> Visit:
        """To a page by its address, as by a link or a bookmark."""
        self.page.goto(f"{self.server.address}#{route}")
        return self.settle()

    def blank(self) -> Visit:
        """As it was before anything was opened."""
        self.page.goto("about:blank")
        self.wrong.clear()
        self.requests.clear()
        self._pending.clear()
        self.allowed = ()
        return self

    def settle(self) -> Visit:
        """Wait until nothing is asked for any more, and what was answered is drawn."""
        deadline = time.monotonic() + PATIENCE
        while True:
            while self._pending:
                assert time.monotonic() < deadline, [request.url for request in self._pending]
                self.page.wait_for_timeout(10)
            begun = self._count
            self.page.evaluate(DRAWN)
            if begun == self._count and not self._pending:
                return self

    def diagnosed(self) -> Visit:
        """Wait for all findings about a run: what is below them moves when they come."""
        findings = self.page.locator(".findings")
        looking = findings.get_by_role("status")
        self.until(lambda: findings.count() and not looking.count())
        return self.settle()

    @property
    def text(self) -> str:
        return self.page.inner_text("body")

    @property
    def state(self) -> dict[str, str]:
        """What the address says of the page's state."""
        query = urlsplit(self.page.url).fragment.partition("?")[2]
        return {name: values[0] for name, values in parse_qs(query).items()}

    def asked(self, name: str) -> list[dict[str, str]]:
        """The parameters of the requests of that name."""
        split = [urlsplit(url) for url in self.requests]
        return [
            {key: values[0] for key, values in parse_qs(one.query).items()}
            for one in split
            if one.path == f"/api/{name}"
        ]

    def heatmap(self) -> dict[str, list[tuple[int, str, int]]]:
        """By path, of each column of the rows in sight: first step, value, how many not finite."""
        button = self.page.get_by_role("button", name="Table of the heatmap")
        if button.get_attribute("aria-pressed") != "true":
            button.click()
        self.page.wait_for_selector(".heat-table tbody td")
        rows = self.page.eval_on_selector_all(
            ".heat-table tbody tr",
            "rows => rows.map(r => [r.dataset.path, [...r.querySelectorAll('td')].map(c => ["
            "Number(c.dataset.first), c.title, Number(c.dataset.nonfinite)])])",
        )
        return {path: [(a, b, c) for a, b, c in cells] for path, cells in rows}

    def labels(self) -> list[str]:
        """The paths of the rows in sight."""
        return self.page.eval_on_selector_all(".labels a.name", "n => n.map(a => a.dataset.path)")

    def download(self, label: str, format: str) -> tuple[str, bytes]:
        """The name and the content of a file that the export menu saves."""
        self.page.get_by_label(f"Export {label}", exact=True).click()
        with self.page.expect_download() as saved:
            self.page.get_by_role("button", name=format, exact=True).locator("visible=true").click()
        return saved.value.suggested_filename, Path(saved.value.path()).read_bytes()

    def assert_harmless(self) -> None:
        """Nothing has happened that must not, and nothing looks broken."""
        wrong = [one for one in self.wrong if not any(word in one for word in self.allowed)]
        assert wrong == []
        origin = self.server.address.rstrip("/")
        others = [u for u in self.requests if not u.startswith((f"{origin}/", "data:", "blob:"))]
        assert others == []
        if self.page.url.startswith(origin):
            assert not re.search(r"\bundefined\b|\[object|Infinity|Invalid Date", self.text)
            assert self.overflow() == 0

    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        return self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )

    def _began(self, request: Request) -> None:
        if "/api/events" not in request.url:
            self._pending.add(request)
            self._count += 1

    def _ended(self, request: Request) -> None:
        self._pending.discard(request)
