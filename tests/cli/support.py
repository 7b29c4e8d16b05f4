"""Runs with known numbers, and the command line in and out of this process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner, Result

from gradwatch import Kind, Reading, Site, Summary
from gradwatch.cli.main import main
from gradwatch.store.writer import StoreWriter

ROOT = Path(__file__).parents[2]
PATHS = ("net/conv/kernel", "net/conv/bias", "net/dense/kernel", "net/dense/bias")
STEPS = range(1, 41)
Truth = dict[Site, dict[int, np.ndarray]]


def arrays(seed: int = 0, paths: tuple[str, ...] = PATHS, scale: float = 1.0) -> Truth:
    """Tensors of each site at each step; some hold NaN, infinity or nothing but 0."""
    rng = np.random.default_rng(seed)
    truth: Truth = {}
    for kind, size in ((Kind.GRADIENT, scale), (Kind.WEIGHT, 1.0), (Kind.UPDATE, 1e-3)):
        for number, path in enumerate(paths):
            count = 3 + 2 * number
            truth[Site(kind, path)] = {
                step: size * 10.0**-number * rng.normal(size=count) for step in STEPS
            }
    truth[Site(Kind.LOSS, "loss")] = {step: np.array([scale / step]) for step in STEPS}
    return truth


def write(directory: Path, truth: Truth, first: int = 1, last: int | None = None) -> StoreWriter:
    """Write a run, step by step; the writer is not closed."""
    writer = StoreWriter(directory, first_step=first)
    steps = sorted({step for series in truth.values() for step in series})
    for step in steps:
        if first <= step <= (last or steps[-1]):
            sites = [site for site in truth if step in truth[site]]
            rows = np.stack([Summary.of(truth[site][step]).pack() for site in sites])
            epoch = 1 + (step - 1) // 10
            writer.write(Reading(step, epoch, 1e9 + step, sites, Summary.unpack(rows)))
    return writer


def make_run(directory: Path, truth: Truth | None = None) -> Truth:
    """A finished run."""
    truth = arrays() if truth is None else truth
    write(directory, truth).close()
    return truth


def invoke(*arguments: object, code: int = 0) -> Result:
    """Run a command in this process."""
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    assert result.exit_code == code, (result.exit_code, result.output, result.exception)
    return result


def strict(text: str) -> Any:
    """What JSON says, refusing the NaN and Infinity that Python's parser would take."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


def command(*arguments: object) -> list[str]:
    """The command for a process of its own."""
    return [sys.executable, "-m", "gradwatch", *map(str, arguments)]


def spawn(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    """Run a command in a process of its own."""
    return subprocess.Popen(command(*arguments), text=True, **options)
