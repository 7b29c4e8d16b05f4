"""The note in a staging directory that says where the run belongs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gradwatch.files import checked_json
from gradwatch.store.remote.address import Remote

NAME = "remote.json"


def write(directory: Path, remote: Remote, place: str, *, complete: bool = False) -> None:
    """Note where the run is uploaded to; without credentials, so it may not be all it takes.

    Args:
        directory: the run's.
        remote: where it was wished to be.
        place: where it is, as it may be shown.
        complete: whether all of it is there.
    """
    about = {"url": place, "complete": complete, "needs": remote.has_secrets}
    checked_json.write(directory / NAME, about)


def read(directory: Path) -> dict[str, Any]:
    """What is noted: `url`, `complete`, and `needs`, whether the URL lacks its credentials.

    Raises:
        FileNotFoundError: nothing; the run was never to be uploaded.
        DamagedError: it cannot be read.
    """
    return checked_json.read(directory / NAME)
