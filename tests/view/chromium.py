"""A real Chromium, and pages of which everything is noticed that must not happen."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, sync_playwright

from tests.view.serving import PATIENCE

_MILLISECONDS = 1000 * PATIENCE
_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def chromium_path() -> str:
    """Where the browser is; the test fails where there is none, as nothing was tested then."""
    found = os.environ.get("GRADWATCH_CHROMIUM") or next(
        filter(None, map(shutil.which, _NAMES)), ""
    )
    if not found:
        pytest.fail(
            "These tests need Chromium. Install it: apt-get install chromium. Or name one by "
            "the environment variable GRADWATCH_CHROMIUM.",
            pytrace=False,
        )
    return found


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser, without a window."""
    with sync_playwright() as playwright:
        # Without a sandbox of its own, which needs rights that containers do not give.
        browser = playwright.chromium.launch(
            executable_path=chromium_path(), args=["--no-sandbox"], timeout=_MILLISECONDS
        )
        yield browser
        browser.close()


class Watched:
    """A page, and what has gone wrong on it.

    Attributes:
        page: Playwright's.
        wrong: console errors and warnings, exceptions, dialogs, violations of the policy.
        requests: the addresses that were asked for.
    """

    def __init__(self, browser: Browser, **options: object) -> None:
        self.wrong: list[str] = []
        self.requests: list[str] = []
        self._context = browser.new_context(**options)  # type: ignore[arg-type]
        self._context.set_default_timeout(_MILLISECONDS)
        self.page: Page = self._context.new_page()
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.wrong.append(f"exception: {error}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", self._dialog)
        self.page.add_init_script(
            "addEventListener('securitypolicyviolation', (e) => console.error("
            "`policy: ${e.violatedDirective} ${e.blockedURI}`))"
        )

    def chart(self, title: str) -> Locator:
        return self.page.get_by_role("region", name=title, exact=True)

    def table(self, title: str) -> dict[str, list[str]]:
        """The numbers behind a chart, by the headings of their columns."""
        button = self.page.get_by_role("button", name=f"Table of {title}", exact=True)
        if button.get_attribute("aria-pressed") != "true":
            button.click()
        head, *rows = (
            self.chart(title)
            .locator(".chart-table table")
            .evaluate(
                "table => [...table.rows].map(row => "
                "[...row.cells].map(cell => cell.title || cell.textContent))"
            )
        )
        return {name: [row[i] for row in rows] for i, name in enumerate(head)}

    def until(self, is_so: Callable[[], Any]) -> Any:
        """What a function returns as soon as that is something; the page goes on meanwhile."""
        deadline = time.monotonic() + PATIENCE
        while not (found := is_so()):
            assert time.monotonic() < deadline, f"waited in vain on {self.page.url}"
            self.page.wait_for_timeout(50)
        return found

    def close(self) -> None:
        """Close it."""
        self._context.close()

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _console(self, message: object) -> None:
        kind, text = message.type, message.text  # type: ignore[attr-defined]
        if kind in ("error", "warning", "assert"):
            self.wrong.append(f"{kind}: {text}")

    def _dialog(self, dialog: object) -> None:
        self.wrong.append(f"dialog: {dialog.message}")  # type: ignore[attr-defined]
        dialog.dismiss()  # type: ignore[attr-defined]
