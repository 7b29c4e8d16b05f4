"""CPU time that the live diagnosis takes for a reading, rule by rule.

    python benchmarks/diagnosis_cost.py [--steps 1000] [--write]

The live diagnosis is fed as `fit(..., callbacks=[Monitor(directory, every=1)])` feeds it: for each
step a reading of all kinds that the rules need, and a report of the mean loss; every 100 steps an
epoch ends. The readings are made up: those of dense layers that learn, with noise. CPU time of the
thread, so that other processes on the machine do not count.

`start` is the mean over the first 100 steps, `long` over the second half of the steps.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from common import keep, machine

from gradwatch import Kind, Reading, Site, Summary
from gradwatch.core import FIELDS, LayerFacts, LossFacts, ModelFacts, OptimizerFacts
from gradwatch.diagnosis import judgement
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.live import LiveDiagnosis
from gradwatch.diagnosis.rule import RULES
from gradwatch.diagnosis.settings import Settings
from gradwatch.util import Reporter

SITES = (320, 3000)
PER_LAYER = 8
BATCH = 64
WIDTH = 48
START = 100
STEPS_PER_EPOCH = 100


class Clock:
    """CPU seconds by name; what is timed inside something else does not count for both."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._inner = [0.0]

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            self._inner.append(0.0)
            began = time.thread_time()
            try:
                return function(*args, **options)
            finally:
                taken = time.thread_time() - began
                self.seconds[name] += taken - self._inner.pop()
                self._inner[-1] += taken

        return call


def rows(values: np.ndarray, size: float) -> np.ndarray:
    """Packed summaries of tensors of so many normal elements with these standard deviations."""
    count = np.full(values.shape, size)
    zeros = np.zeros(values.shape)
    fields = [
        count, zeros, zeros, zeros, zeros, 0.01 * values * count, 0.8 * values * count,
        values**2 * count, -3.0 * values, 3.0 * values,
    ]  # fmt: skip
    return np.stack(fields, axis=-1)


def readings(layers: int, steps: int) -> Iterator[tuple[Reading, list[Reading]]]:
    """The measurement of each step, and the reports that follow it."""
    rng = np.random.default_rng(0)
    kinds = (Kind.WEIGHT, Kind.GRADIENT, Kind.UPDATE)
    paths = [f"net/dense_{i}" for i in range(layers)]
    sites = [Site(k, f"{path}/{v}") for path in paths for v in ("kernel", "bias") for k in kinds]
    sites += [Site(kind, path) for path in paths for kind in (Kind.OUTPUT, Kind.DEAD_UNIT)]
    sites += [Site(Kind.INPUT, "input"), Site(Kind.TARGET, "target"), Site(Kind.LOSS, "loss")]
    numbers = ("learning_rate", "batch_size", "constant_loss")
    sites += [Site(Kind.SCALAR, name) for name in numbers]
    samples = ("samples", "median", "1/index", "1/loss", "2/index", "2/loss", "3/index", "3/loss")
    sites += [Site(Kind.SAMPLE_LOSS, name) for name in samples]
    fixed, reported = tuple(sites), tuple(Site(Kind.METRIC, name) for name in ("loss", "accuracy"))
    ended = tuple(Site(Kind.EPOCH_METRIC, name) for name in ("loss", "accuracy"))
    labels = Summary.of(np.arange(BATCH) % WIDTH).pack()
    losses: list[float] = []
    for step in range(1, steps + 1):
        noise = np.exp(0.1 * rng.normal(size=2 * layers))
        scales = np.array([0.1, 1e-3, 1e-5])
        tensors = rows((scales * noise[:, None]).ravel(), WIDTH * WIDTH)
        outputs = rows(0.5 * noise[:layers], BATCH * WIDTH)
        outputs[:, -2] = 0.0
        dead = Summary.of_numbers(rng.uniform(0.0, 0.2, layers)).pack()
        losses.append((2.3 * np.exp(-step / 400) + 0.05) * np.exp(0.1 * rng.normal()))
        batch = np.stack([Summary.of(rng.normal(size=BATCH)).pack(), labels])
        worst = [BATCH, losses[-1], 7, 3.0, 5, 2.0, 9, 1.0]
        alone = Summary.of_numbers([losses[-1], 1e-3, BATCH, 2.3, *worst]).pack()
        layer_rows = np.stack([outputs, dead], axis=1).reshape(-1, len(FIELDS))
        table = np.concatenate([tensors, layer_rows, batch, alone])
        epoch, when = 1 + (step - 1) // STEPS_PER_EPOCH, 1.7e9 + 0.003 * step
        mean = float(np.mean(losses[(epoch - 1) * STEPS_PER_EPOCH :]))
        report = Summary.of_numbers([mean, 0.5])
        reports = [Reading(step, epoch, when, reported, report)]
        if step % STEPS_PER_EPOCH == 0:
            reports.append(Reading(step, epoch, when, ended, report))
        yield Reading(step, epoch, when, fixed, Summary.unpack(table)), reports


def facts_of(layers: int) -> ModelFacts:
    known = [LayerFacts(f"net/dense_{i}", "Dense", "relu", WIDTH, True) for i in range(layers)]
    known[-1] = replace(known[-1], activation="softmax")
    loss = LossFacts("sparse_categorical_crossentropy")
    return ModelFacts(known, [known[-1].path], loss, OptimizerFacts("adam", 1e-3))


def measured(sites: int, steps: int) -> dict[str, dict[str, float]]:
    """Milliseconds a reading by part, at the start and in the long run."""
    layers = sites // PER_LAYER
    clock = Clock()
    declared = dict(RULES)
    originals = History.add, judgement._judged
    for name, rule in declared.items():
        RULES[name] = replace(rule, check=clock.timed(name, rule.check))
    History.add = clock.timed("keeping the history", originals[0])  # type: ignore[method-assign]
    judgement._judged = clock.timed("judging the loss", originals[1])
    try:
        live = LiveDiagnosis(Settings(), Reporter())
        live.begin(facts_of(layers), None, awaits_reports=True)
        write = clock.timed("all else", live.write)
        taken = {}
        marks = {0: "", START: "start", steps // 2: "", steps: "long"}
        for step, (reading, reports) in enumerate(readings(layers, steps), 1):
            write(reading)
            for report in reports:
                write(report)
            if marks.get(step):
                count = START if step == START else steps - steps // 2
                taken[marks[step]] = {n: 1e3 * s / count for n, s in clock.seconds.items()}
            if step in marks:
                clock.seconds.clear()
    finally:
        RULES.update(declared)
        History.add, judgement._judged = originals  # type: ignore[method-assign]
    found = [finding.title for finding in live.findings]
    assert not found, found
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--write", action="store_true", help="keep the result in results/")
    options = parser.parse_args()
    columns = {
        f"{sites:,} sites, {phase}": parts
        for sites in SITES
        for phase, parts in measured(sites, options.steps).items()
    }
    last = next(reversed(columns.values()))
    names = sorted(last, key=lambda name: -last[name])
    lines = [
        f"CPU milliseconds a reading, of {options.steps:,} steps. {machine()}.",
        "",
        f"| | {' | '.join(columns)} |",
        "|---" * (len(columns) + 1) + "|",
        f"| **all** | {' | '.join(f'**{sum(x.values()):.3f}**' for x in columns.values())} |",
    ]
    for name in names:
        lines.append(f"| {name} | {' | '.join(f'{x[name]:.3f}' for x in columns.values())} |")
    keep("diagnosis-cpu", "\n".join(lines), {"machine": machine(), "ms": columns}, options.write)


if __name__ == "__main__":
    main()
