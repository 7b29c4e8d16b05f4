"""Places for remote runs: fsspec's memory, and a real S3-compatible server on this machine."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import fsspec
import pytest

from tests.store.recorded import settle

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a test's is kept in the user's directories."""
    monkeypatch.setenv("GRADWATCH_STAGING", str(tmp_path / "staging"))
    monkeypatch.setenv("GRADWATCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of an S3-compatible server."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    running.start()
    yield f"http://localhost:{running.get_host_and_port()[1]}"
    running.stop()


@pytest.fixture
def s3(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an empty bucket, for which the environment has all that it takes."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "very-secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": server,
    }.items():
        monkeypatch.setenv(name, value)
    bucket = f"bucket{next(_numbers)}"
    files = fsspec.filesystem("s3", skip_instance_cache=True)
    files.mkdir(bucket)
    yield f"s3://{bucket}"
    fsspec.filesystem("s3").clear_instance_cache()


@pytest.fixture
def memory() -> str:
    """The URL of an empty folder in memory."""
    return f"memory://test{next(_numbers)}"


@pytest.fixture(params=["memory", "s3"])
def home(request: pytest.FixtureRequest) -> str:
    """The URL of an empty place, of each kind."""
    return str(request.getfixturevalue(request.param))


def remote_files(url: str) -> list[str]:
    """The paths of all files there."""
    files, root = fsspec.core.url_to_fs(url, skip_instance_cache=not url.startswith("memory"))
    return sorted(path[len(root.rstrip("/")) + 1 :] for path in files.find(root))


def until(is_so: Callable[[], object], seconds: float = 300.0) -> None:
    """Wait for what the background does."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.05)


def drain() -> None:
    """Have everything sealed and uploaded now."""
    from gradwatch.record import directory as rundir
    from gradwatch.store.remote import uploader

    settle()
    assert rundir._background.finish(time.monotonic() + 60)
    for each in uploader._uploaders.values():
        assert each.finish(time.monotonic() + 60), each.leftover()
