"""Runs, a server of them and a browser; every visit is checked for harm when it ends."""

import pytest

import gradwatch
from tests.view.browser import made
from tests.view.browser.visiting import Visit, run_ids
from tests.view.chromium import chromium
from tests.view.serving import serving


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """The golden run, one to compare it with, and two hostile ones; nobody changes them."""
    place = tmp_path_factory.mktemp("browsed") / "runs"
    made.training(place / "golden")
    made.training(place / "other", seed=1, steps=range(1, 181), more=("net/extra/kernel",))
    made.hostile(place / made.HOSTILE_RUN)
    made.hostile(place / made.HOSTILE_TWIN, factor=4.0)
    return place


@pytest.fixture(scope="module")
def golden(place):
    with gradwatch.open(place / "golden") as run:
        yield run


@pytest.fixture(scope="module")
def other(place):
    with gradwatch.open(place / "other") as run:
        yield run


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def server(place):
    with serving(place) as server:
        yield server


@pytest.fixture(scope="module")
def ids(server):
    """The ids of the runs by their names."""
    return run_ids(server)


@pytest.fixture(scope="module")
def window(browser, server):
    """The window of all visits that ask for nothing special, as opening one takes a while."""
    with Visit(browser, server) as window:
        yield window


@pytest.fixture
def visit(browser, server, window):
    """Opens pages: `visit("/run/...", color_scheme="dark")`."""
    visits = []

    def opened(route="/", **options):
        visits.append(Visit(browser, server, **options) if options else window.blank())
        return visits[-1].go(route)

    yield opened
    for each in visits:
        each.assert_harmless()
        if each is not window:
            each.close()
