"""Uploading a run from its staging directory."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradwatch.maintain.repair_run import LiveRunError, repair
from gradwatch.store import file_names as names
from gradwatch.store.remote import Claim, Folder, Remote, Transfer, WaitingError, upload_note

PATIENCE = 5.0
"""Seconds to wait for a run that is being recorded to end."""


@dataclass(frozen=True)
class Upload:
    """The result of `upload`: `url` is without secrets; `damaged` segments were not uploaded."""

    url: str
    files: int
    bytes: int
    damaged: tuple[str, ...] = ()


def upload(
    directory: str | Path, to: str | None = None, options: Mapping[str, Any] | None = None
) -> Upload:
    """Upload a run whose recording has ended to the URL it belongs to, or to another.

    The journals of dead processes are sealed first, as by `repair`. Files that are at the
    URL already are not uploaded again.

    Args:
        directory: a run's; the staging directory of a remote run, or any other.
        to: the URL; if not given, the one that the run was recorded for.
        options: for fsspec, as in `Remote`.

    Raises:
        ValueError: the run was not recorded for a URL, or for one with a password, and
            none is given.
        LiveRunError: it is being recorded, and uploaded by that process.
        OSError: it cannot be uploaded.

    Example:

    >>> import gradwatch, numpy as np, tempfile
    >>> directory = tempfile.mkdtemp()
    >>> with gradwatch.Monitor(directory, sinks=[gradwatch.Store()]) as monitor:
    ...     monitor.record(gradients={"dense/kernel": np.array([3.0, 4.0])})
    >>> gradwatch.maintain.upload(directory, "memory://examples/upload").url
    'memory://examples/upload'
    >>> gradwatch.open("memory://examples/upload").series("gradient", "dense/kernel", "l2")
    (array([1]), array([5.]))
    """
    place = Path(directory)
    remote = Remote(to or _noted(place), options=options or {})
    folder = Folder(remote)
    _seal(place)
    claim = Claim(folder, remote.every)
    transfer = Transfer(place, _taken(claim))
    try:
        transfer.advance()
    finally:
        claim.release()
    if transfer.damaged:
        upload_note.write(place, remote, transfer.folder.shown)
    else:
        upload_note.complete_all(place, remote, transfer.folder.shown)
    damaged = tuple(sorted(transfer.damaged))
    return Upload(transfer.folder.shown, transfer.files, transfer.bytes, damaged)


def _seal(place: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while any(names.parse_journal(name) for name in names.listed(place)):
        try:
            repair(place)
            return
        except LiveRunError:
            # It may have ended just now, and be sealed a second later by its own process.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _taken(claim: Claim) -> Folder:
    while True:
        try:
            return claim.take()
        except WaitingError as waiting:
            time.sleep(waiting.pause)


def _noted(directory: Path) -> str:
    if not directory.is_dir():
        raise FileNotFoundError(f"There is no directory {str(directory)!r}.")
    try:
        about = upload_note.read(directory)
    except FileNotFoundError:
        raise ValueError(
            f"{directory} was not recorded for a URL. Say where to upload it, "
            "such as s3://bucket/runs/a."
        ) from None
    if about.get("needs"):
        raise ValueError(
            f"{directory} belongs at {about['url']}, whose password or user is not kept. "
            "Give the whole URL."
        )
    return str(about["url"])
