"""Runs that the tests of the command line share."""

import pytest

from tests.cli.support import arrays, make_run
from tests.store.recorded import settle


@pytest.fixture(scope="session")
def truth():
    """The tensors of the shared run."""
    truth = arrays()
    gradients = [site for site in truth if site.kind == "gradient"]
    truth[gradients[0]][7][1] = float("nan")
    truth[gradients[0]][9][0] = float("inf")
    for step in range(31, 41):
        truth[gradients[3]][step][:] = 0.0
    return truth


@pytest.fixture(scope="session")
def run(tmp_path_factory, truth):
    """A finished run; nobody changes it."""
    directory = tmp_path_factory.mktemp("runs") / "shared"
    make_run(directory, truth)
    settle()
    return directory


@pytest.fixture(scope="session")
def other(tmp_path_factory):
    """Another run of the same network, with gradients twice as large and other numbers."""
    directory = tmp_path_factory.mktemp("runs") / "other"
    make_run(directory, arrays(seed=1, scale=2.0))
    settle()
    return directory
