"""The runs in a directory."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any

from gradwatch.read.comparison import Comparison, comparison_of
from gradwatch.read.run import Run
from gradwatch.read.run_outline import outline_of
from gradwatch.store import file_names as names
from gradwatch.util.display import notebook

NOT_RUNS = frozenset({names.SEGMENTS, "quarantine", "pictures"})


def is_run(directory: Path) -> bool:
    """Whether there is a file that only runs have; a folder of that name is none."""
    return any(
        _is_of_run(name) and not (directory / name).is_dir() for name in names.listed(directory)
    )


class Runs:
    """The runs in a directory, at any depth; each is opened when it is first used.

    A run that cannot be opened hides no other: it is in `broken`.

    Args:
        path: the directory.

    Attributes:
        path: the directory.
        broken: by name, why runs could not be opened, of those that have been tried.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.broken: dict[str, Exception] = {}
        self._places: dict[str, Path] = {}
        self._opened: dict[str, Run] = {}
        self.refresh()

    def refresh(self) -> bool:
        """Look for runs again; returns whether the list has changed.

        Runs that are open are not read on: call their own `refresh`.
        """
        found = self._find()
        places = {name: found[name] for name in sorted(found, key=natural)}
        changed = list(places) != list(self._places)
        self._places = places
        return changed

    @property
    def names(self) -> list[str]:
        """Their paths below the directory, in the order of names with 2 before 10."""
        return list(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __getitem__(self, name: str) -> Run:
        if name not in self._places:
            near = get_close_matches(name, self._places, n=3)
            hint = f"Closest: {', '.join(near)}." if near else f"There are {len(self)}."
            raise KeyError(f"There is no run {name!r} in {str(self.path)!r}. {hint}")
        if name not in self._opened:
            self._opened[name] = self.fresh(name)
        return self._opened[name]

    def __iter__(self) -> Iterator[Run]:
        """Those that can be opened."""
        for name in self.names:
            try:
                run = self[name]
            except Exception as fault:
                # Whatever is wrong with it, the others are to be seen.
                self.broken[name] = fault
            else:
                self.broken.pop(name, None)
                yield run

    def _find(self) -> dict[str, Path]:
        return {str(place.relative_to(self.path)): place for place in _find(self.path)}

    def fresh(self, name: str) -> Run:
        """Open a run that is not kept open here; close it yourself."""
        return Run(self._places[name])

    def filter(self, pattern: str | Callable[[Run], bool]) -> list[Run]:
        """The runs whose name matches a pattern such as `"lr*"`, or that a function chooses."""
        if isinstance(pattern, str):
            return [
                run for run in self if fnmatchcase(str(run.path.relative_to(self.path)), pattern)
            ]
        return [run for run in self if pattern(run)]

    def compare(self, *chosen: str, **options: Any) -> Comparison:
        """Put runs side by side; all of them if none is named. See `gradwatch.compare`."""
        return comparison_of([self[name] for name in chosen] or list(self), **options)

    def rows(self) -> list[dict[str, Any]]:
        """One row for each run that can be opened: status, times, last numbers, settings.

        Losses and metrics have their own names, and settings too, with `config.` before them.
        """
        return [_row(run, str(run.path.relative_to(self.path))) for run in self]

    def to_pandas(self) -> Any:
        """The `rows` as a `pandas.DataFrame`."""
        return import_module("pandas").DataFrame(self.rows())

    def close(self) -> None:
        """Close those that are open."""
        for run in self._opened.values():
            run.close()
        self._opened = {}

    def __enter__(self) -> Runs:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _repr_html_(self) -> str:
        return notebook().runs_html(self)

    def __repr__(self) -> str:
        shown = ", ".join(self.names[:5]) + (", ..." if len(self) > 5 else "")
        return f"Runs({str(self.path)!r}: {len(self)}: {shown})"


def _row(run: Run, name: str) -> dict[str, Any]:
    outline = outline_of(run)
    return {
        "name": name,
        "status": str(run.status),
        "started": run.started,
        "duration": run.duration,
        "last_step": run.last_step,
        **outline.losses,
        **outline.metrics,
        **{f"config.{key}": value for key, value in outline.config.items()},
        "tags": list(outline.tags),
        "note": outline.note,
    }


def _find(root: Path) -> Iterator[Path]:
    """The runs below a directory; links to other directories are not followed."""
    waiting = [root]
    while waiting:  # Not os.walk, which fails at a thousand nested directories.
        here = waiting.pop()
        try:
            with os.scandir(here) as entries:
                found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        except OSError:
            continue
        if any(_is_of_run(name) for name, is_folder in found if not is_folder):
            yield here
        waiting += [
            here / name
            for name, is_folder in found
            if is_folder and name not in NOT_RUNS and not name.startswith(".")
        ]


def _is_of_run(file: str) -> bool:
    return (
        file == names.DESCRIPTION
        or names.parse_journal(file) is not None
        or names.parse_manifest(file) is not None
    )


def natural(name: str) -> list[tuple[int, int, str]]:
    """Sorts names with 2 before 10."""
    parts = re.split(r"([0-9]+)", name)
    return [(1, int(p), "") if i % 2 else (0, 0, p) for i, p in enumerate(parts)]
