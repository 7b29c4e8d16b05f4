"""Runs many cases in a few processes, and keeps each result as a line of JSON."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from .catalog import BACKENDS
from .program import Case
from .worker import prepare, run_case

Line = dict[str, Any]
_RUNS_PER_PROCESS = 120


def read(file: Path) -> list[Line]:
    """The results so far; a line that was cut off by a kill is left out."""
    lines = []
    for text in file.read_text().splitlines() if file.exists() else ():
        try:
            lines.append(json.loads(text))
        except ValueError:
            continue
    return lines


def run_all(
    chosen: Sequence[Case],
    seeds: Sequence[int],
    modes: Sequence[str],
    file: Path,
    *,
    processes: int,
    backend: str | None = None,
) -> Iterator[Line]:
    """Run what is not in the file yet, and yield each result.

    Twins of faulty cases that have no result in any mode are trained too, without a monitor:
    watching changes nothing in a training, so one result serves all modes.
    """
    known = read(file)
    done = {(line["name"], line["seed"], line["mode"]) for line in known}
    tasks = [(each.name, seed, mode) for mode in modes for seed in seeds for each in chosen]
    tasks = [task for task in tasks if task not in done]
    scored = {key[:2] for key in (*done, *tasks)}
    twins = {(each.twin, seed, "bare") for each in chosen if each.twin for seed in seeds}
    tasks = [*sorted(task for task in twins if task[:2] not in scored), *tasks]
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as out:
        for line in _results(tasks, processes, backend):
            out.write(json.dumps(line) + "\n")
            out.flush()
            yield line


def _results(
    tasks: Iterable[tuple[str, int, str]], processes: int, backend: str | None
) -> Iterator[Line]:

    def backend_of(task: tuple[str, int, str]) -> str:
        return backend or BACKENDS.get(task[0].partition(":")[0], "torch")

    context = multiprocessing.get_context("spawn")
    for name, of_backend in groupby(sorted(tasks, key=backend_of), backend_of):
        with context.Pool(processes, prepare, (name,), _RUNS_PER_PROCESS) as pool:
            yield from pool.imap_unordered(_run, list(of_backend))


def _run(task: tuple[str, int, str]) -> Line:
    return run_case(*task)
