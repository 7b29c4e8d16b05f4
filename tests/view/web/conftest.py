"""A directory of runs, and somebody to ask about it."""

import pytest

from tests.view.data.made import recorder
from tests.view.web.served import asking


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """Two runs, and a file beside them that is nobody's business."""
    above = tmp_path_factory.mktemp("served")
    (above / "secret.txt").write_text("the secret")
    place = above / "runs"
    recorder(place / "a").write(range(1, 21), histograms=True).close()
    recorder(place / "deep" / "b").write(range(1, 11)).close()
    return place


@pytest.fixture(scope="session")
def asker(place):
    with asking(place) as asker:
        yield asker
