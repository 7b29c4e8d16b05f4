"""Who uploads to a remote folder: of two processes, each gets its own."""

from __future__ import annotations

import json
import re
import time
from typing import Any

from gradwatch.store import names, process
from gradwatch.store.remote.folder import Folder

PERIODS = 3
"""A claim that has not been renewed for so many of its periods is a dead process's."""
_CLAIM = re.compile(r"claim-(?P<owner>[0-9A-Za-z-]+)\.json")


class WaitingError(Exception):
    """Another process may be alive there; look again later.

    Attributes:
        pause: how many seconds later.
    """

    def __init__(self, pause: float) -> None:
        super().__init__(f"another process may be writing there; look again in {pause:g} s")
        self.pause = pause


class Claim:
    """The right to upload to a folder, or to the first one beside it that is free.

    Each process that uploads has a small file of its own in the folder and renews it
    again and again. Files of others that are not renewed are those of dead processes. That
    is found out by looking twice, so clocks need not agree. Two processes that begin at
    the same moment see each other's files, and the one whose name comes first stays.

    Args:
        folder: the folder wished for.
        period: how often it will be renewed, in seconds.
        settle: how many seconds to wait between entering the claim and looking
            for others that entered one at the same moment.
    """

    def __init__(self, folder: Folder, period: float, settle: float = 0.3) -> None:
        self.owner = names.new_writer(0)
        self.folder = folder
        self._first, self._number = folder, 1
        self._period, self._settle = period, settle
        self._entered = self._held = False
        self._beats = 0
        self._seen: dict[str, tuple[bytes, float]] = {}

    def take(self) -> Folder:
        """The folder to write to; renews the claim if there is one.

        Raises:
            WaitingError: that is not known yet.
            OSError: the folder cannot be read or written.
        """
        while not self._held:
            if not self._entered:
                self._write()
                self._entered = True
                time.sleep(self._settle)
            if self._is_taken():
                self.release()
                self._number += 1
                self.folder = self._first.beside(self._number)
            else:
                self._held = True
        self._write()
        return self.folder

    def release(self) -> None:
        """Let others have the folder."""
        if self._entered:
            self.folder.delete(_name(self.owner))
        self._entered = self._held = False
        self._seen = {}

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

    def _silence(self, name: str, data: bytes, other: dict[str, Any]) -> float | None:
        """How many seconds until the other one counts as dead; None if it is alive."""
        running = process.is_running(other)
        if running is not None:
            return None if running else 0.0
        first, since = self._seen.setdefault(name, (data, time.monotonic()))
        if first != data:
            return None
        period = _number(other.get("period")) or self._period
        return max(0.0, since + PERIODS * period - time.monotonic())


def is_alive(folder: Folder, claims: list[str]) -> bool:
    """Whether one of the claims with these names was renewed lately, by the clock."""
    for name in claims:
        try:
            about = _parse(folder.read(name))
        except OSError:
            continue
        running = process.is_running(about)
        if running is not None:
            if running:
                return True
            continue
        if time.time() - _number(about.get("time")) < PERIODS * _number(about.get("period")):
            return True
    return False


def is_claim(name: str) -> bool:
    """Whether a file of this name is a claim."""
    return _CLAIM.fullmatch(name) is not None


def _name(owner: str) -> str:
    return f"claim-{owner}.json"


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _parse(data: bytes) -> dict[str, Any]:
    try:
        about = json.loads(data)
    except ValueError:
        return {}
    return about if isinstance(about, dict) else {}
