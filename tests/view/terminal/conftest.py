"""Runs to look at, and terminals to look at them in."""

import pytest

from tests.cli.support import arrays, make_run
from tests.store.recorded import settle
from tests.view.terminal.emulator import Emulator

MANY = 100


@pytest.fixture(scope="session")
def many(tmp_path_factory):
    """A run of a hundred layers."""
    directory = tmp_path_factory.mktemp("runs") / "many"
    make_run(directory, arrays(paths=tuple(f"net/layer{i}/kernel" for i in range(MANY))))
    settle()
    return directory


@pytest.fixture
def emulate():
    """Starts commands in terminals, which are closed after the test."""
    started = []

    def start(arguments, **options):
        started.append(Emulator(arguments, **options))
        return started[-1]

    yield start
    for emulator in started:
        emulator.close()
