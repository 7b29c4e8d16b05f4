"""Who wants to know when something of a run is sealed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_followers: dict[Path, Follower] = {}


@dataclass(frozen=True)
class Follower:
    """Somebody who makes use of sealed segments while the run is recorded.

    Attributes:
        every: the number of seconds after which a journal is sealed even if it is not full.
        on_sealed: called on the sealing thread, after each journal that is sealed.
    """

    every: float
    on_sealed: Callable[[], object]


def follow(directory: Path, follower: Follower) -> None:
    """Let somebody know of what is sealed in this run from now on, instead of who did before."""
    _followers[directory.absolute()] = follower


def unfollow(directory: Path) -> None:
    """Nobody wants to know any more."""
    _followers.pop(directory.absolute(), None)


def of(directory: Path) -> Follower | None:
    """Who wants to know of this run.

    >>> import pathlib
    >>> from gradwatch.store import followers
    >>> followers.follow(pathlib.Path("a"), followers.Follower(60.0, lambda: None))
    >>> followers.of(pathlib.Path("a")).every
    60.0
    >>> followers.unfollow(pathlib.Path("a"))
    """
    return _followers.get(directory.absolute())
