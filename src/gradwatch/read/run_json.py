"""What a run says of itself: `run.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gradwatch.core import KINDS, Site, SiteInfo
from gradwatch.read.checks import identity_of
from gradwatch.store import Damage
from gradwatch.util.files import checked_json

NAME = "run.json"


def read(directory: Path) -> tuple[dict[str, Any], Damage | None]:
    """The facts, empty if there are none, and what is wrong with the file."""
    path = directory / NAME
    try:
        return checked_json.read(path), None
    except FileNotFoundError:
        return {}, None
    except checked_json.DamagedError as error:
        # Runs of the first format have no checksum.
        old = _unchecked(path)
        return (old, None) if old is not None else ({}, Damage(path, str(error)))
    except OSError as error:
        return {}, Damage(path, f"it cannot be read ({error.strerror or error})")


class FactsFile:
    """The facts, read again once the file has changed: with many sites it is large.

    Args:
        directory: the run's.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: tuple[object, tuple[dict[str, Any], Damage | None]] | None = None

    def read(self) -> tuple[dict[str, Any], Damage | None]:
        """As `read`; the very same as before for as long as the file is."""
        try:
            # Before it is read: if it changes meanwhile, it is read once more the next time.
            identity: object = identity_of(self._directory / NAME)
        except OSError as error:
            identity = error.errno
        if self._known is None or self._known[0] != identity:
            told = read(self._directory)
            if self._known is not None and told == self._known[1]:
                told = self._known[1]
            self._known = identity, told
        return self._known[1]


def meaning(facts: Mapping[str, Any]) -> dict[str, str]:
    """In words, what a measurement of each kind is."""
    for entry in (facts, *reversed(_fits(facts))):
        found = entry.get("meaning")
        if isinstance(found, Mapping):
            return {str(kind): str(words) for kind, words in found.items()}
    return {}


def process_count(facts: Mapping[str, Any]) -> int:
    """How many processes write that train together; 0 if it is not told."""
    fits = _fits(facts)
    told = fits[-1].get("ranks") if fits else None
    return told if isinstance(told, int) else 0


def site_infos(facts: Mapping[str, Any]) -> dict[Site, SiteInfo]:
    """What is known of the sites beyond their address."""
    infos: dict[Site, SiteInfo] = {}
    for entry in (facts, *_fits(facts)):
        entries = entry.get("sites")
        for about in entries if isinstance(entries, list) else ():
            info = _info(about)
            if info is not None:
                infos[info.site] = info
    return infos


def bare_info(site: Site) -> SiteInfo:
    """All that is known of a site from its address."""
    return SiteInfo(site, shape=(), dtype="", part=_part_of(site), columns=_columns_of(site))


def _part_of(site: Site) -> str:
    return "output" if site.kind.is_of_layer else site.path.rpartition("/")[2].partition("[")[0]


def _columns_of(site: Site) -> tuple[int, int] | None:
    # A selector of slices asks for their columns; which they are is not known here.
    return (0, 0) if site.is_slice else None


def _info(about: Any) -> SiteInfo | None:
    try:
        site = Site(KINDS[about["kind"]], str(about["path"]))
        return SiteInfo(
            site,
            shape=tuple(about.get("shape") or ()),
            dtype=str(about.get("dtype") or ""),
            part=str(about.get("part") or _part_of(site)),
            trainable=bool(about.get("trainable", True)),
            layer_indices=tuple(map(int, about.get("layer_indices") or ())),
            columns=_columns_of(site),
        )
    except (TypeError, KeyError, ValueError, AttributeError):
        return None


def _fits(facts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    fits = facts.get("fits")
    return [fit for fit in fits if isinstance(fit, Mapping)] if isinstance(fits, list) else []


def _unchecked(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    is_old = isinstance(content, dict) and content.get("format") == 1
    return content if is_old and checked_json.CHECKSUM not in content else None
