"""Synthetic runs of several ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import gradwatch
from gradwatch import Kind
from gradwatch.diagnosis import Diagnosis, Finding, diagnose
from gradwatch.store.writer import StoreWriter
from tests.diagnosis.support import reading

Arrays = Mapping[tuple[Kind, str], Any]
Course = Callable[[int, int], Arrays]
"""The arrays of a rank at a step."""

LAYERS = ("net/a", "net/b", "net/c")
CHECKS = (10, 20, 50, 100)
STEPS = 100


def record(
    directory: Path,
    course: Course,
    ranks: Iterable[int] = range(4),
    steps: Iterable[int] = range(1, STEPS + 1),
    *,
    began: float = 0.0,
    group: str = "",
    close: bool = True,
) -> None:
    """Write each rank's part of a course; a step takes a second."""
    several = list(steps)
    for rank in ranks:
        writer = StoreWriter(directory, several[0], rank)
        for step in several:
            arrays = course(rank, step)
            if arrays:
                made = reading(step, arrays, group=group)
                writer.write(replace(made, time=began + step + 0.01 * rank))
        if close:
            writer.close()


def healthy(rank: int, step: int) -> dict[tuple[Kind, str], Any]:
    """Ranks that train well; losses, outputs and times are noisy."""
    chance = np.random.default_rng([rank, step])
    arrays: dict[tuple[Kind, str], Any] = {
        (Kind.OUTPUT, path): chance.normal(size=16) for path in LAYERS
    }
    arrays[Kind.LOSS, "loss"] = [2.0 * 0.99**step * chance.lognormal(0, 0.2)]
    arrays[Kind.SCALAR, "step_seconds"] = [0.1 * chance.lognormal(0, 0.05)]
    arrays[Kind.SCALAR, "own_seconds"] = [0.04 * chance.lognormal(0, 0.3)]
    if rank == 0:
        arrays |= {(Kind.GRADIENT, f"{path}/kernel"): chance.normal(size=6) for path in LAYERS}
    if step in CHECKS or rank == 0:
        arrays |= {(Kind.WEIGHT, f"{path}/kernel"): weights(step, path) for path in LAYERS}
    if step in CHECKS:
        arrays |= {(Kind.SCALAR, "replica_of"): [0.0], (Kind.SCALAR, "replica_hardware"): [77.0]}
    return arrays


def weights(step: int, path: str) -> np.ndarray:
    """The weights, which are the same on all ranks."""
    chance = np.random.default_rng([step, LAYERS.index(path)])
    return chance.normal(size=200).astype(np.float32)


def diagnosed(directory: Path, **options: Any) -> Diagnosis:
    """The diagnosis of a run; a rule that raises fails the test."""

    def fail(text: str) -> None:
        raise AssertionError(text)

    with gradwatch.open(directory) as run:
        return diagnose(run, on_error=fail, **options)


ABOUT_RANKS = ("non-finite-rank", "drifting-replicas", "straggling-rank")


def about_ranks(directory: Path, **options: Any) -> list[Finding]:
    """The findings of the rules that compare ranks."""
    return [f for f in diagnosed(directory, **options).findings if f.rule in ABOUT_RANKS]


def the_one(directory: Path, rule: str, **options: Any) -> Finding:
    """The only finding about ranks, which is of this rule."""
    (finding,) = about_ranks(directory, **options)
    assert finding.rule == rule, finding.title
    return finding
