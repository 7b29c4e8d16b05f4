"""Violations of accessibility, as found by axe-core, which `make viewer` installs."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from playwright.sync_api import Page

_AXE = Path(__file__).parents[2] / "viewer" / "node_modules" / "axe-core" / "axe.min.js"


@cache
def _script() -> str:
    if not _AXE.exists():
        pytest.fail("This test needs axe-core: npm --prefix viewer ci", pytrace=False)
    return _AXE.read_text()


def violations(page: Page) -> list[str]:
    """The rules that the page breaks, each with the first element that does."""
    # Evaluated and not added to the page, whose policy allows no other script.
    page.evaluate(f"{_script()};0")
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found]
