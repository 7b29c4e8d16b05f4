"""What a run says of itself: `run.json`."""

from collections.abc import Mapping
from pathlib import Path

from gradwatch.core import KINDS, Site, SiteInfo
from gradwatch.read.file_cache import FileCache
from gradwatch.store import DESCRIPTION, Damage, fitting, read_description
from gradwatch.util import Json
from gradwatch.util.files import DamagedError

Facts = Mapping[str, Json]
_NAMED = 3
"""So many faults of the file are named."""


def read_facts(path: Path) -> tuple[Facts, Damage | None]:
    """The content of a `run.json`, empty if there is none, and what is wrong with the file."""
    try:
        facts, faults = fitting(read_description(path))
        return facts, Damage(path, _in_words(faults)) if faults else None
    except FileNotFoundError:
        return {}, Damage(path, "it is a link to nothing") if path.is_symlink() else None
    except DamagedError as error:
        return {}, Damage(path, str(error))
    except OSError as error:
        return {}, Damage(path, f"it cannot be read ({error.strerror or error})")


def _in_words(faults: list[str]) -> str:
    more = f", and {len(faults) - _NAMED:,} more" if len(faults) > _NAMED else ""
    return f"some of it is left out: {', '.join(faults[:_NAMED])}{more}"


class FactsFile:
    """The facts of a run, read again when the file has changed: with many sites it is large."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / DESCRIPTION
        self._cache = FileCache(read_facts)
        self._last: tuple[Facts, Damage | None] | None = None

    def read(self) -> tuple[Facts, Damage | None]:
        """As `read_facts`; the same objects as before if nothing has changed."""
        try:
            found = self._cache.get(self._path)
        except OSError:
            found = read_facts(self._path)
        if self._last is None or found != self._last:
            self._last = found
        return self._last


def meaning(facts: Facts) -> dict[str, str]:
    """In words, what a measurement of each kind is."""
    for entry in (facts, *reversed(_fits(facts))):
        found = entry.get("meaning")
        if isinstance(found, Mapping):
            return {str(kind): str(words) for kind, words in found.items()}
    return {}


def process_count(facts: Facts) -> int:
    """How many processes train together; 0 if that is not known."""
    fits = _fits(facts)
    count = fits[-1].get("ranks") if fits else None
    return count if isinstance(count, int) else 0


def site_infos(facts: Facts) -> dict[Site, SiteInfo]:
    infos: dict[Site, SiteInfo] = {}
    for entry in (facts, *_fits(facts)):
        entries = entry.get("sites")
        for about in entries if isinstance(entries, list) else ():
            info = _info(about)
            if info is not None:
                infos[info.site] = info
    return infos


def layer_classes(facts: Facts) -> dict[str, str]:
    """By path, the class of each layer that is known, such as `Dense`."""
    classes: dict[str, str] = {}
    for entry in (*_fits(facts), facts):
        model = entry.get("model")
        layers = model.get("layers") if isinstance(model, Mapping) else None
        for about in layers if isinstance(layers, list) else ():
            if isinstance(about, Mapping) and isinstance(about.get("class_name"), str):
                classes[str(about.get("path"))] = about["class_name"]
    return classes


def bare_info(site: Site) -> SiteInfo:
    """All that is known of a site from its address."""
    return SiteInfo(site, shape=(), dtype="", part=_part_of(site), columns=_columns_of(site))


def _part_of(site: Site) -> str:
    return "output" if site.kind.is_of_layer else site.path.rpartition("/")[2].partition("[")[0]


def _columns_of(site: Site) -> tuple[int, int] | None:
    # A selector of slices asks for their columns, which are not known here.
    return (0, 0) if site.is_slice else None


def _info(about: Json) -> SiteInfo | None:
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


def _fits(facts: Facts) -> list[Facts]:
    fits = facts.get("fits")
    return [fit for fit in fits if isinstance(fit, Mapping)] if isinstance(fits, list) else []
