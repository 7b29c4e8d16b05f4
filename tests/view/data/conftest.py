"""A run of blocks that everything is asked of."""

import pytest

import gradwatch
from gradwatch.view.data import RunView
from tests.view.data.made import recorder

LAST = 60


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs") / "blocks"
    recorder(place).write(range(1, LAST + 1), histograms=True).close()
    return place


@pytest.fixture
def shown(place):
    return RunView(gradwatch.open(place), "the-id")
