"""Servers keep what they know of runs in a folder of the tests' own."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def cache_home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield
