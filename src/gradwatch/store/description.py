"""`run.json`: what a run is."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gradwatch.util.files import DamagedError, checked_json

NAME = "run.json"
FORMAT = 2
FIRST_KEPT, LAST_KEPT = 1, 20
"""How many of the entries about each fit are kept."""


def read(path: Path) -> dict[str, Any]:
    """The description of a run, from its `run.json`.

    Those of gradwatch 0.1, of format 1, had no checksum.

    Raises:
        OSError: it cannot be read.
        DamagedError: it is not what was written.
    """
    with contextlib.suppress(ValueError, AttributeError):
        content = json.loads(path.read_bytes())
        if content.get("format") == 1 and checked_json.CHECKSUM not in content:
            return dict(content)
    return checked_json.read(path)


class Description:
    """What is to be entered into a run's `run.json`, collected until it is written.

    `fits` tells of each call of `fit`, or each loop: of the first and the last 20; how
    many there were is in `fit_count`. All else is there once, as it was last.

    Args:
        directory: the run's.

    Example:

    >>> import pathlib, tempfile
    >>> from gradwatch import description
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> about = description.Description(directory)
    >>> about.begin({"first_step": 1})
    >>> about.amend("cost", 0.01)
    >>> about.write()
    >>> description.read(directory / "run.json")
    {'format': 2, 'fits': [{'first_step': 1}], 'fit_count': 1, 'cost': 0.01}
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / NAME
        self._fits: list[dict[str, Any]] = []
        self._changes: dict[str, Any] = {}

    def begin(self, facts: Mapping[str, Any]) -> None:
        """A fit begins."""
        self._fits.append(dict(facts))

    def amend(self, key: str, value: Any) -> None:
        """Enter a fact of the run as a whole."""
        self._changes[key] = value

    def write(self) -> None:
        """Write all that is new, atomically; if there is nothing, do nothing.

        Raises:
            OSError: it cannot be written; the next call tries it again.
        """
        if not self._fits and not self._changes:
            return
        fits, changes = list(self._fits), dict(self._changes)
        content = self._so_far()
        entries = [*content.get("fits", []), *fits]
        count = content.get("fit_count", len(content.get("fits", []))) + len(fits)
        kept = entries[:FIRST_KEPT] + entries[FIRST_KEPT:][-LAST_KEPT:]
        content |= {"format": FORMAT, "fits": kept, "fit_count": count, **changes}
        checked_json.write(self.path, content)
        del self._fits[: len(fits)]
        for key in changes:
            if self._changes.get(key) is changes[key]:
                del self._changes[key]

    def _so_far(self) -> dict[str, Any]:
        try:
            return read(self.path)
        except FileNotFoundError:
            return {}
        except DamagedError:
            # Not ours to delete: a person may read what we cannot.
            self.path.replace(self.path.with_name("run.json.damaged"))
            return {}
