"""Reading runs at a URL, by the ordinary reader, from a local copy."""

from dataclasses import replace
from pathlib import Path

from gradwatch.read.mirror import Mirror
from gradwatch.read.run import Run
from gradwatch.read.runs import NOT_RUNS, Runs
from gradwatch.read.status import RankStatus, Status
from gradwatch.store import file_names as names
from gradwatch.store.remote import Folder, Remote, claims

_SILENT = (Status.CRASHED, Status.EMPTY)
"""The local status of a run, or a rank, that has sealed nothing new."""


class RemoteRun(Run):
    """A run at a URL: `path` is its local copy, which `refresh` brings up to date."""

    def __init__(self, folder: Folder, directory: Path) -> None:
        self.url = folder.shown
        self._mirror = Mirror(folder, directory)
        self._mirror.refresh()
        super().__init__(directory)

    def refresh(self) -> bool:
        """Download what was uploaded since; returns whether anything has changed.

        Raises OSError if the URL cannot be reached; the copy is still served.
        """
        self._mirror.refresh()
        return super().refresh()

    @property
    def name(self) -> str:
        """The last part of the URL."""
        return self.url.rpartition("/")[2]

    @property
    def status(self) -> Status:
        """As of every run; it is live for as long as a process renews its claim at the URL."""
        status = super().status
        if status in _SILENT:
            return Status.LIVE if self._living() else status
        return status

    @property
    def rank_statuses(self) -> list[RankStatus]:
        """As of every run; a rank is live for as long as it renews its claim at the URL."""
        found = super().rank_statuses
        alive = self._living() if any(each.status in _SILENT for each in found) else set()
        return [
            replace(each, status=Status.LIVE)
            if each.status in _SILENT and each.rank in alive
            else each
            for each in found
        ]

    def _living(self) -> set[int]:
        return claims.living(self._mirror.folder, self._mirror.claims)

    def __repr__(self) -> str:
        return super().__repr__().replace(repr(str(self.path)), repr(self.url), 1)


class RemoteRuns(Runs):
    """The runs below a URL; each is downloaded into `directory` when it is first used."""

    def __init__(self, folder: Folder, directory: Path) -> None:
        self.url = folder.shown
        self._folder = folder
        super().__init__(directory)

    def _find(self) -> dict[str, Path]:
        found = {}
        for path in self._folder.walk():
            place, _, name = path.rpartition("/")
            parts = place.split("/")
            is_hidden = any(part in NOT_RUNS or part.startswith(".") for part in parts)
            is_sign = name == names.DESCRIPTION or names.parse_manifest(name) is not None
            if place and is_sign and not is_hidden:
                found[place] = self.path.joinpath(*parts)
        return found

    def fresh(self, name: str) -> Run:
        return RemoteRun(self._folder.within(name), self._places[name])

    def __repr__(self) -> str:
        return super().__repr__().replace(repr(str(self.path)), repr(self.url), 1)


def open_remote(remote: Remote) -> Run | Runs:
    """Open a URL: a run, or all runs below it."""
    folder = Folder(remote)
    directory = remote.cache_directory
    listed = [entry.name for entry in folder.listed()]
    if any(name == names.DESCRIPTION or names.parse_manifest(name) for name in listed):
        return RemoteRun(folder, directory)
    runs = RemoteRuns(folder, directory)
    if not len(runs):
        raise FileNotFoundError(
            f"There is no run at {remote.shown}: no run.json or manifest at any depth. A run "
            "appears there a moment after its first steps are recorded."
        )
    return runs
