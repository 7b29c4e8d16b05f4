"""What a run says of itself: `run.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gradwatch.files import checked_json
from gradwatch.sites import Kind, Site, SiteInfo
from gradwatch.store.journal import Damage

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


def meaning(facts: Mapping[str, Any]) -> dict[str, str]:
    """In words, what a measurement of each kind is."""
    for entry in (facts, *reversed(_fits(facts))):
        found = entry.get("meaning")
        if isinstance(found, Mapping):
            return {str(kind): str(words) for kind, words in found.items()}
    return {}


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
    part = "output" if site.kind.is_of_layer else site.path.rpartition("/")[2].partition("[")[0]
    # A selector of slices asks for their columns; which they are is not known here.
    columns = (0, 0) if site.is_slice else None
    return SiteInfo(site, shape=(), dtype="", part=part, columns=columns)


def _info(about: Any) -> SiteInfo | None:
    try:
        site = Site(Kind(about["kind"]), str(about["path"]))
        bare = bare_info(site)
        return SiteInfo(
            site,
            shape=tuple(about.get("shape") or ()),
            dtype=str(about.get("dtype") or ""),
            part=str(about.get("part") or bare.part),
            trainable=bool(about.get("trainable", True)),
            layer_indices=tuple(int(i) for i in about.get("layer_indices") or ()),
            columns=bare.columns,
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
