"""A run in a list of runs: its last numbers, and what the user has told of it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gradwatch.core import VALUE, Kind, Site
from gradwatch.read.row_groups import RowGroups
from gradwatch.read.run import Run
from gradwatch.read.run_json import Facts
from gradwatch.read.steps import Bucketing, by_width
from gradwatch.util import Json

COURSE = 40
"""The most values of the course of a loss."""
_MOST_SETTINGS, _DEEPEST, _LONGEST = 500, 8, 500

Setting = bool | int | float | str | None


@dataclass(frozen=True)
class Outline:
    """A run in a list of runs.

    Attributes:
        losses: by path, each loss as `metrics` are: the epoch's where training reported it, else
            what it reported after steps, and only else the last step's own.
        metrics: by name, all else that training reported, as of its last epoch where it is a
            number of epochs.
        course: the first loss over the run, in at most `COURSE` means.
        config: the run's own settings by name; those of a nested one have dots in it.
        tags, note: as the user gave them.
    """

    losses: dict[str, float]
    metrics: dict[str, float]
    course: tuple[float, ...]
    config: dict[str, Setting]
    tags: tuple[str, ...]
    note: str


def outline_of(run: Run) -> Outline:
    """The outline of a run; of several ranks, the first one's numbers."""
    own, reported = _last_values(run, Kind.LOSS), _last_metrics(run)
    is_loss = {path: path in own or path.rpartition("/")[2] == "loss" for path in reported}
    losses = {**own, **{path: value for path, value in reported.items() if is_loss[path]}}
    told = run.facts
    return Outline(
        losses,
        {name: value for name, value in reported.items() if not is_loss[name]},
        _course(run),
        settings_of(told),
        *tags_and_note(told),
    )


def tags_and_note(facts: Facts) -> tuple[tuple[str, ...], str]:
    """Those in `run.json`, whatever is in it."""
    tags, note = facts.get("tags"), facts.get("note")
    words = tuple(str(tag) for tag in tags) if isinstance(tags, list) else ()
    return words, note if isinstance(note, str) else ""


def settings_of(facts: Facts) -> dict[str, Setting]:
    """The settings in `run.json`, whatever is in it, with the names of nested ones joined by dots.

    >>> settings_of({"config": {"lr": 0.1, "net": {"layers": [8, 8], "bias": True}}})
    {'lr': 0.1, 'net.layers': '[8, 8]', 'net.bias': True}
    """
    config = facts.get("config")
    found: dict[str, Setting] = {}
    waiting: list[tuple[str, Json, int]] = [("", config, 0)] if isinstance(config, Mapping) else []
    while waiting and len(found) < _MOST_SETTINGS:
        name, value, depth = waiting.pop()
        if isinstance(value, Mapping) and value and depth < _DEEPEST:
            inner = [(f"{name}.{key}" if name else str(key), own) for key, own in value.items()]
            waiting += [(key, own, depth + 1) for key, own in reversed(inner)]
        elif name:
            is_plain = value is None or isinstance(value, bool | int | float | str)
            plain = value if is_plain else json.dumps(value, default=str)
            found[name] = plain[:_LONGEST] if isinstance(plain, str) else plain
    return found


def _last_metrics(run: Run) -> dict[str, float]:
    """The last value of each metric, in the order in which they were met.

    What was reported of an epoch counts: after few steps of the next one, a mean is noise, and
    stands beside the validation of the epoch before.
    """
    return {**_last_values(run, Kind.METRIC), **_last_values(run, Kind.EPOCH_METRIC)}


def _last_values(run: Run, kind: Kind) -> dict[str, float]:
    """By path, the last value of each number of a kind."""
    sites = run.sites(kind)
    if not sites:
        return {}
    shown = run.steps_shown(kind)
    if not shown.size:
        return {}
    # Most are reported at the same steps: one query, rather than one for each.
    step = int(shown[-1])
    rows = RowGroups.of([[site] for site in sites])
    table = run.row_table(kind, rows, [VALUE.name], Bucketing(1), (step, step))
    found = {}
    for i, site in enumerate(sites):
        if table.steps.size and table.steps[i, -1]:
            found[site.path] = float(table.values[VALUE.name][i, -1])
            continue
        steps, values = run.series(kind, site.path, VALUE.name)
        if steps.size:
            found[site.path] = float(values[-1])
    return found


def _course(run: Run) -> tuple[float, ...]:
    site = _main_loss(run)
    if site is None:
        return ()
    bucketing = by_width(run.steps_shown(site.kind), COURSE)
    table = run.row_table(site.kind, RowGroups.of([[site]]), [VALUE.name], bucketing)
    values = table.values[VALUE.name][0][table.steps[0] > 0]
    return tuple(np.asarray(values, np.float64).tolist())


def _main_loss(run: Run) -> Site | None:
    """The first loss; without one, what is called so."""
    for kind in (Kind.LOSS, Kind.METRIC, Kind.EPOCH_METRIC):
        sites = run.sites(kind)
        named = [site for site in sites if site.path.rpartition("/")[2].endswith("loss")]
        if kind is Kind.LOSS and sites:
            return sites[0]
        if named:
            return named[0]
    return None
