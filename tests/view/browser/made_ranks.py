"""A run of four ranks and a fifth that never came: one crashed, one late, one slow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from gradwatch.core import Kind, Reading, Site, Summary
from gradwatch.core.reference import summarize
from gradwatch.store import description
from gradwatch.store.writer import StoreWriter
from tests.store.recorded import settle

ROOT = Path(__file__).parents[3]
STEPS = range(1, 61)
CRASHED, LATE, SLOW, MISSING = 1, 2, 3, 4
LAST_OF_CRASHED, FIRST_OF_LATE = 40, 21
LOSS, SECONDS = Site(Kind.LOSS, "loss"), Site(Kind.SCALAR, "step_seconds")
GRADIENT, OUTPUT = Site(Kind.GRADIENT, "net/a/kernel"), Site(Kind.OUTPUT, "net/a")
BEGUN = 1.75e9


def tensor(site: Site, rank: int, step: int) -> np.ndarray:
    """What a rank has of a site at a step, always the same."""
    rng = np.random.default_rng([rank, step, len(site.path)])
    if site == LOSS:
        return np.array(np.nan if (rank, step) == (CRASHED, 30) else 2 / step + 0.1 * rank)
    if site == SECONDS:
        return np.array(0.1 * (1 + (rank == SLOW)) + 0.01 * rng.random())
    return rng.normal(size=6)


def steps_of(rank: int) -> range:
    if rank == CRASHED:
        return range(1, LAST_OF_CRASHED + 1)
    return range(FIRST_OF_LATE, STEPS.stop) if rank == LATE else STEPS


def write(place: Path, rank: int) -> StoreWriter:
    """All of a rank's readings; rank 0 has the gradients too. It is not closed."""
    sites = [LOSS, SECONDS, OUTPUT, *[GRADIENT] * (rank == 0)]
    writer = StoreWriter(place, 1, rank)
    for step in steps_of(rank):
        rows = Summary.unpack(np.array([summarize(tensor(site, rank, step)) for site in sites]))
        writer.write(Reading(step, 1, BEGUN + step, sites, rows))
    return writer


def ranks(place: Path) -> Path:
    """The run, all of whose processes are gone."""
    place.mkdir(parents=True)
    about = description.Description(place)
    about.begin({"first_step": 1, "ranks": MISSING + 1})
    about.write()
    for rank in (0, LATE, SLOW):
        write(place, rank).close()
    # By a process that ends without ending its record.
    code = (
        "import os, pathlib, sys\n"
        "from tests.view.browser.made_ranks import CRASHED, write\n"
        "write(pathlib.Path(sys.argv[1]), CRASHED)\n"
        "os._exit(0)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(
        [sys.executable, "-c", code, str(place)],
        check=True,
        cwd=ROOT,
        env=environment,
        timeout=300,
    )
    settle()
    return place
