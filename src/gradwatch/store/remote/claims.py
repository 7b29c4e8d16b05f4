"""Which process uploads to a remote folder: of two processes, each gets its own folder."""

import json
import re
import time
from pathlib import Path
from typing import Any

from gradwatch.store import file_names as names
from gradwatch.store import process
from gradwatch.store.description_types import fitting
from gradwatch.store.remote.folder import Folder
from gradwatch.store.remote.rank_share import RankShare
from gradwatch.util import Json
from gradwatch.util.files import DamagedError, checked_json

LOOK_AGAIN = 1.0
"""Seconds after which a process looks again where the first of its training uploads to."""
PERIODS = 3
"""A claim that has not been renewed for so many of its periods is a dead process's."""
_CLAIM = re.compile(r"claim-(?P<owner>[0-9A-Za-z-]+)\.json")


class WaitingError(Exception):
    """Another process may be alive there; look again `pause` seconds later."""

    def __init__(self, pause: float) -> None:
        super().__init__(f"another process may be writing there; look again in {pause:g} s")
        self.pause = pause


class Claim:
    """The right to upload to a folder, or to the first numbered one that is free.

    Each process that uploads has a small file of its own in the folder and renews it
    again and again. Files of others that are not renewed are those of dead processes. That
    is found out by looking twice, so clocks need not agree. Two processes that begin at
    the same moment see each other's files, and the one whose name comes first stays.

    Of processes that train together, the first comes by a folder like this. The others take the
    one whose `run.json` is of the same training.

    The claim is renewed every `period` seconds. `settle` is how many seconds to wait between
    entering it and looking for others that were entered at the same moment. Without a `share`, this
    process uploads all of the run.
    """

    def __init__(
        self, folder: Folder, period: float, settle: float = 0.3, share: RankShare | None = None
    ) -> None:
        self.owner = names.new_writer(0 if share is None else share.rank)
        self.folder = folder
        self.share = share
        self._first, self._number = folder, 1
        self._period, self._settle = period, settle
        self._entered = self._held = False
        self._beats = 0
        self._seen: dict[str, tuple[bytes, float]] = {}

    def take(self) -> Folder:
        """The folder to write to, or `WaitingError` if not known yet; renews the claim if any."""
        if self.share is not None and not self.share.is_first and not self._held:
            self.folder = self._folder_of_training(self.share.training)
            self._held = self._entered = True
        while not self._held:
            if not self._entered:
                self._write()
                self._entered = True
                time.sleep(self._settle)
            if self._is_taken():
                self.release()
                self._number += 1
                self.folder = self._first.numbered(self._number)
            else:
                self._held = True
        self._write()
        return self.folder

    def release(self) -> None:
        if self._entered:
            self.folder.delete(_name(self.owner))
        self._entered = self._held = False
        self._seen = {}

    def _folder_of_training(self, training: str) -> Folder:
        """The folder to which the first process of a training uploads."""
        folder, number = self._first, 1
        while True:
            if training in _trainings(folder):
                return folder
            if not folder.listed():
                raise WaitingError(LOOK_AGAIN)  # It has not begun.
            number += 1
            folder = self._first.numbered(number)

    def _write(self) -> None:
        self._beats += 1
        about = {
            "owner": self.owner,
            "held": self._held,
            "period": self._period,
            "beats": self._beats,
            "time": time.time(),
            **process.describe(),
        }
        if self.share is not None:
            about |= {"training": self.share.training, "rank": self.share.rank}
        self.folder.write(_name(self.owner), json.dumps(about).encode())

    def _is_taken(self) -> bool:
        """Whether a living process has the folder, or came first."""
        pause = 0.0
        for entry in self.folder.listed():
            found = _CLAIM.fullmatch(entry.name)
            if found is None or found["owner"] == self.owner:
                continue
            try:
                data = self.folder.read(entry.name)
            except FileNotFoundError:
                continue
            other = _parse(data)
            if self.share is not None and other.get("training") == self.share.training:
                continue  # Another rank of the same training.
            is_before = bool(other.get("held")) or found["owner"] < self.owner
            if is_before:
                left = self._silence(entry.name, data, other)
                if left is None:
                    return True
                if left > 0:
                    pause = max(pause, left)
                else:
                    self.folder.delete(entry.name)
        if pause:
            raise WaitingError(min(pause, self._period / 2))
        return False

    def _silence(self, name: str, data: bytes, other: dict[str, Json]) -> float | None:
        """How many seconds until the other one counts as dead; None if it is alive."""
        running = process.is_running(other)
        if running is not None:
            return None if running else 0.0
        first, since = self._seen.setdefault(name, (data, time.monotonic()))
        if first != data:
            return None
        period = _number(other.get("period")) or self._period
        return max(0.0, since + PERIODS * period - time.monotonic())


def living(folder: Folder, claims: list[str]) -> set[int]:
    """The ranks whose claims, of those with these names, were renewed lately, by the clock.

    A process that uploads all of a run counts as the first.
    """
    found = set()
    for name in claims:
        try:
            about = _parse(folder.read(name))
        except OSError:
            continue
        running = process.is_running(about)
        age = time.time() - _number(about.get("time"))
        if running is None and age < PERIODS * _number(about.get("period")):
            running = True
        if running:
            found.add(int(_number(about.get("rank"))))
    return found


def is_claim(name: str) -> bool:
    return _CLAIM.fullmatch(name) is not None


def _trainings(folder: Folder) -> set[str]:
    """The trainings that a folder's `run.json` names."""
    try:
        content = checked_json.loads(folder.read("run.json"), Path("run.json"))
    except (FileNotFoundError, DamagedError):
        return set()
    return {str(fit.get("training")) for fit in fitting(content)[0].get("fits", [])}


def _name(owner: str) -> str:
    return f"claim-{owner}.json"


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _parse(data: bytes) -> dict[str, Json]:
    try:
        about = json.loads(data)
    except ValueError:
        return {}
    return about if isinstance(about, dict) else {}
