"""`remote.json`: where the run in a staging directory is uploaded to."""

from pathlib import Path

from gradwatch.store.remote.address import Remote
from gradwatch.store.remote.rank_share import RankShare
from gradwatch.util import Json
from gradwatch.util.files import checked_json

NAME = "remote.json"


def write(
    directory: Path,
    remote: Remote,
    place: str,
    *,
    complete: bool = False,
    share: RankShare | None = None,
) -> None:
    """Note where the run is uploaded to; without credentials, so it may not be all it takes.

    The run was to be at `remote` and is at `place`, which may be shown. Without a `share`, the note
    is of all of the run.
    """
    about = {"url": place, "complete": complete, "needs": remote.has_secrets}
    name = NAME if share is None or share.is_first else f"remote-r{share.rank:04d}.json"
    checked_json.write(directory / name, about)


def complete_all(directory: Path, remote: Remote, place: str) -> None:
    """Note that all of the run is there, for every rank."""
    for path in {directory / NAME, *_notes(directory)}:
        checked_json.write(path, {"url": place, "complete": True, "needs": remote.has_secrets})


def read(directory: Path) -> dict[str, Json]:
    """What is noted: `url`, `complete`, and `needs`, whether the URL lacks its credentials.

    Raises `FileNotFoundError` if the run was never to be uploaded, `DamagedError` if unreadable.
    """
    # On a machine without the first rank there are only those of others.
    found = [checked_json.read(path) for path in _notes(directory)]
    if not found:
        raise FileNotFoundError(f"There is no {NAME} in {directory}.")
    return {**found[0], "complete": all(about.get("complete") for about in found)}


def _notes(directory: Path) -> list[Path]:
    found = [directory / NAME, *sorted(directory.glob("remote-r*.json"))]
    return [path for path in found if path.exists()]
