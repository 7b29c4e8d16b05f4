"""`run.json`: what a run is."""

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gradwatch.store.description_types import fitting
from gradwatch.store.file_names import DESCRIPTION
from gradwatch.util import Json
from gradwatch.util.files import DamagedError, atomic, checked_json, regular

FORMAT = 2
FIRST_KEPT, LAST_KEPT = 1, 20
"""How many of the entries about each fit are kept."""


def read(path: Path) -> dict[str, Json]:
    """The content of `run.json`; raises `DamagedError` if it is not what was written.

    Those of gradwatch 0.1, of format 1, had no checksum. It may have parts of wrong types, see
    `description_types.fitting`.
    """
    with contextlib.suppress(ValueError, AttributeError, RecursionError):
        content = json.loads(regular.read_bytes(path))
        if content.get("format") == 1 and checked_json.CHECKSUM not in content:
            return dict(content)
    return checked_json.read(path)


class Description:
    """Changes to a run's `run.json`, collected until they are written.

    `fits` has an entry for each call of `fit` or each loop: the first and the last 20 are
    kept, and `fit_count` is the number of all. Of everything else the last value is kept.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / DESCRIPTION
        self._fits: list[dict[str, Json]] = []
        self._changes: dict[str, Json] = {}
        self._written: tuple[bytes, dict[str, Json]] = (b"", {})

    def begin(self, facts: Mapping[str, Json]) -> None:
        """A fit begins."""
        self._fits.append(dict(facts))

    def amend(self, key: str, value: Any) -> None:
        """Enter a fact of the run as a whole."""
        self._changes[key] = value

    def write(self) -> None:
        """Write all that is new, atomically; after an `OSError` the next call tries it again."""
        if not self._fits and not self._changes:
            return
        fits, changes = list(self._fits), dict(self._changes)
        content = self._so_far()
        entries = [*content.get("fits", []), *fits]
        count = content.get("fit_count", len(content.get("fits", []))) + len(fits)
        kept = entries[:FIRST_KEPT] + entries[FIRST_KEPT:][-LAST_KEPT:]
        content |= {"format": FORMAT, "fits": kept, "fit_count": count, **changes}
        text = checked_json.dumps(content)
        atomic.replace(self.path, text)
        self._written = text, content
        del self._fits[: len(fits)]
        for key in changes:
            if self._changes.get(key) is changes[key]:
                del self._changes[key]

    def _so_far(self) -> dict[str, Json]:
        try:
            text, content = self._written
            if regular.read_bytes(self.path) == text:
                # Checking a thousand sites again would hold up the end of each short fit.
                return dict(content)
            content, faults = fitting(read(self.path))
        except FileNotFoundError:
            return {}
        except (DamagedError, regular.UnreadableError) as error:
            content, faults = {}, [str(error)]
        if faults:
            # Not ours to delete: a person may read what we cannot.
            self.path.replace(self.path.with_name("run.json.damaged"))
        return content
