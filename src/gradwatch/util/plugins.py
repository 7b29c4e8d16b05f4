"""Parts of gradwatch that other installed packages bring, through entry points."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from gradwatch.util.reporter import described, say

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

RULES = "gradwatch.rules"
"""The group of modules that declare rules when they are imported."""

SINKS = "gradwatch.sinks"
"""The group of sinks: classes, or functions that return a sink, called without arguments."""


@cache
def installed(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name; nothing of them is imported."""
    # Imported here: it takes as long as all of gradwatch together.
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=group)}


@cache
def load(group: str, name: str) -> Any:
    """What an entry point refers to; None, and a message, if it cannot be imported."""
    try:
        return installed(group)[name].load()
    except (Exception, SystemExit) as error:
        leave_out(group, name, error)
        return None


def leave_out(group: str, name: str, error: BaseException) -> None:
    """Say that an entry point fails and is not used."""
    package = getattr(installed(group)[name].dist, "name", "unknown")
    say(
        f"{name!r} of the package {package!r} (entry point {group}) failed and is left out. "
        f"{described(error)}"
    )


def load_all(group: str) -> None:
    """Import all of a group."""
    for name in installed(group):
        load(group, name)
