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
def installed(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group, by package and name; nothing of them is imported."""
    # Imported here: it takes as long as all of gradwatch together.
    from importlib.metadata import entry_points

    return tuple(sorted(entry_points(group=group), key=lambda each: (package_of(each), each.name)))


@cache
def entry_of(group: str, name: str) -> EntryPoint | None:
    """The entry point of this name; the first one, and a message, if several packages have it."""
    found = [each for each in installed(group) if each.name == name]
    if len(found) > 1:
        packages = ", ".join(repr(package_of(each)) for each in found)
        say(
            f"{name!r} (entry point {group}) is in several packages: {packages}. That of "
            f"{package_of(found[0])!r} is used. For another, give the object instead of the name."
        )
    return found[0] if found else None


@cache
def load(entry: EntryPoint) -> Any:
    """What an entry point refers to; None, and a message, if it cannot be imported."""
    try:
        return entry.load()
    except (Exception, SystemExit) as error:
        leave_out(entry, f"failed and is left out. {described(error)}")
        return None


def leave_out(entry: EntryPoint, why: str) -> None:
    """Say that something of an entry point is not used."""
    say(f"{entry.name!r} of the package {package_of(entry)!r} (entry point {entry.group}) {why}")


def package_of(entry: EntryPoint) -> str:
    return str(getattr(entry.dist, "name", "unknown"))
