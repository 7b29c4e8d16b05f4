"""Tensors that follow from a seed, and whether a run holds exactly what is true of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import gradwatch

PATHS = ("net/conv/kernel", "net/conv/bias", "net/dense/kernel")
SIZE = 16
SHOWN = "count, nan, posinf, neginf, zeros, sum, l1, l2, min, max"


def gradients(seed: int, step: int, paths: Sequence[str] = PATHS) -> dict[str, np.ndarray]:
    """The tensors of a step, always the same; now and then some are not finite, or all."""
    values = np.random.default_rng([seed, step]).normal(size=(len(paths), SIZE)).astype(np.float32)
    values[0, 0] = 0.0
    if step % 7 == 3:
        values[:, 1:4] = np.nan, np.inf, -np.inf
    if step % 11 == 5:
        values[-1] = np.nan
    return dict(zip(paths, values, strict=True))


def summary(values: np.ndarray) -> list[float]:
    """What `SHOWN` names, straight from the definitions."""
    wide = values.astype(np.float64).ravel()
    finite = wide[np.isfinite(wide)]
    return [
        wide.size,
        np.isnan(wide).sum(),
        np.isposinf(wide).sum(),
        np.isneginf(wide).sum(),
        (wide == 0).sum(),
        finite.sum(),
        np.abs(finite).sum(),
        np.linalg.norm(finite),
        finite.min() if finite.size else np.nan,
        finite.max() if finite.size else np.nan,
    ]


def fields(values: np.ndarray) -> list[float]:
    """The ten numbers that are kept of a tensor, straight from the definitions."""
    wide = values.astype(np.float64).ravel()
    finite = wide[np.isfinite(wide)]
    squares, least, most = (
        np.square(finite).sum(),
        finite.min(initial=np.inf),
        finite.max(initial=-np.inf),
    )
    return [*summary(values)[:7], squares, least, most]


def steps_in(run: Any, seed: int, paths: Sequence[str] = PATHS) -> list[int]:
    """The steps that the run shows, each with all of its rows, and every number true."""
    found = run.sql(f"select path, step, {SHOWN} from summaries where kind = 'gradient'").fetchall()
    rows = {(path, step): numbers for path, step, *numbers in found}
    assert len(rows) == len(found), "a site has two values at a step"
    steps = sorted({step for _, step in rows})
    assert len(rows) == len(steps) * len(paths), "a step has only some of its rows"
    true = [summary(values) for step in steps for values in gradients(seed, step, paths).values()]
    shown = [rows[path, step] for step in steps for path in paths]
    np.testing.assert_allclose(np.array(shown, float), np.array(true, float), rtol=1e-12)
    return steps


def steps_shown(directory: Path, seed: int, paths: Sequence[str] = PATHS) -> list[int]:
    """The same of a run that is not damaged."""
    with gradwatch.open(directory) as run:
        assert not run.damage, run.damage
        return steps_in(run, seed, paths)
