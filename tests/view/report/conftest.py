"""A golden run and a hostile one, and the browser that looks at their reports."""

import pytest

from tests.view.chromium import chromium
from tests.view.report.made import golden, hostile


@pytest.fixture(scope="session")
def golden_run(tmp_path_factory):
    """A run with all that a report shows; nobody changes it."""
    return golden(tmp_path_factory.mktemp("runs") / "golden")


@pytest.fixture(scope="session")
def hostile_run(tmp_path_factory):
    """A run of which every name means harm."""
    return hostile(tmp_path_factory.mktemp("runs") / "hostile")


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened
