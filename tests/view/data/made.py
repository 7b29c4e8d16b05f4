"""Runs made of known arrays, and what is true of their rows by NumPy in float64."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from gradwatch.core import Kind, Site
from tests.statistics_truth import shown_truth
from tests.store.recorded import Recorder, array

PATHS = (
    "net/stem/kernel",
    "net/block1/conv/kernel",
    "net/block1/conv/bias",
    "net/block1/norm/gamma",
    "net/block2/lstm/kernel",
    "net/block2/lstm/kernel[forget]",
    "net/block2/lstm/kernel[input]",
    "net/head/kernel",
    "net/head/bias",
)
KINDS = (Kind.WEIGHT, Kind.GRADIENT, Kind.UPDATE)
SITES = [Site(kind, path) for path in PATHS for kind in KINDS]

# What adds up over steps is shown for the average step; the others are of all elements.
_ADDS_UP = {"count", "nan", "posinf", "neginf", "zeros", "sum", "l1"}


def recorder(place: Path, **options: object) -> Recorder:
    """A writer of `SITES`, a few steps a file."""
    return Recorder(place, sites=list(SITES), **{"rows_a_journal": 200, **options})


def members(kind: Kind, path: str) -> list[Site]:
    """The sites at or below a path, straight from the definition: slices only by themselves."""
    own = [site for site in SITES if site.kind is kind]
    exact = [site for site in own if site.path == path]
    below = [s for s in own if s.path.startswith(f"{path}/") and "[" not in s.path]
    return exact or below


def average(statistic: str, arrays: Sequence[np.ndarray], steps: int) -> float:
    """A statistic of the average of some steps as it is shown, from all elements of all of them."""
    if not arrays:
        return float("nan")
    everything = np.concatenate([each.astype(np.float64).ravel() for each in arrays])
    value = shown_truth(statistic, everything)
    if statistic in _ADDS_UP:
        return value / steps
    return value / np.sqrt(steps) if statistic == "l2" else value


def truth(kind: Kind, path: str, statistic: str, steps: Iterable[int], **which: int) -> float:
    """A statistic of a row over the steps of a column at which all its sites were measured."""
    steps = list(steps)
    arrays = [array(site, step, **which) for site in members(kind, path) for step in steps]
    return average(statistic, arrays, len(steps))


def doubles(text: str, *shape: int) -> np.ndarray:
    """What a page reads from doubles."""
    return np.frombuffer(base64.b64decode(text), "<f8").reshape(shape or (-1,))


def columns(answer: dict) -> list[tuple[int, int]]:
    """The first and the last step of each column."""
    return list(zip(answer["first"], answer["last"], strict=True))


def cells(answer: dict) -> np.ndarray:
    """A heatmap's values."""
    return doubles(answer["values"], len(answer["rows"]), len(answer["first"]))
