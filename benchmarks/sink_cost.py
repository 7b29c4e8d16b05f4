"""CPU time that the TensorBoard sink and the store take for a step, compared with rivals.

    python benchmarks/sink_cost.py [--steps 400] [--write]

The readings are those of 80 dense layers, as `fit(..., callbacks=[Monitor(directory, every=1)])`
gives them to its sinks: gradients, weights, updates, outputs and dead units, 654 sites, of which
TensorBoard shows about 320 series; and the report of the loss after each step. They are written one
by one, as in steps that take longer than 25 ms, and those of 20 steps together, as in quick ones.

The rivals write the same numbers under the same tags, computed beforehand: `tf.summary.scalar`;
torch's `SummaryWriter`, which is TensorBoard's own; tensorboardX if it is installed.

CPU time of the process, with the threads that write in the background. Files are closed outside of
it, but for the rivals' last flush.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from common import keep, machine
from diagnosis_cost import readings

from gradwatch import Reading
from gradwatch.sinks import RunInfo, Sink, Store, TensorBoard
from gradwatch.sinks.scalar_table import ScalarTable

LAYERS = 80
WARM_UP = 20
TOGETHER = 20
SUMMARY_WRITERS = {"torch": "torch.utils.tensorboard", "tensorboardX": "tensorboardX"}
Numbers = list[tuple[int, list[tuple[str, float]]]]


def numbers_of(steps: Sequence[Sequence[Reading]]) -> Numbers:
    """For each step, what TensorBoard shows of it: tags and numbers."""
    tables: dict[int, ScalarTable] = {}
    shown = []
    for own in steps:
        rows = []
        for reading in own:
            table = tables.setdefault(id(reading.sites), ScalarTable(reading, None))
            rows += list(table.rows(reading))
        shown.append((own[0].step, rows))
    return shown


def cpu_milliseconds(run: Callable[[int, int], object], steps: int) -> float:
    """Of `run(first, last)`, a step, after some to warm up."""
    run(0, WARM_UP)
    began = time.process_time()
    run(WARM_UP, steps)
    return 1e3 * (time.process_time() - began) / (steps - WARM_UP)


def sink_cost(sink: Sink, steps: Sequence[Sequence[Reading]], together: int) -> float:
    def write(first: int, last: int) -> None:
        for start in range(first, last, together):
            several = [each for own in steps[start : min(start + together, last)] for each in own]
            if together > 1:
                sink.write_many(several)
            else:
                for each in several:
                    sink.write(each)

    with tempfile.TemporaryDirectory() as directory:
        sink.open(RunInfo(Path(directory)))
        taken = cpu_milliseconds(write, len(steps))
        sink.close()
    return taken


def tensorflow_cost(shown: Numbers) -> float:
    tf = import_module("tensorflow")
    with tempfile.TemporaryDirectory() as directory:
        writer = tf.summary.create_file_writer(directory)

        def write(first: int, last: int) -> None:
            with writer.as_default():
                for step, rows in shown[first:last]:
                    for tag, number in rows:
                        tf.summary.scalar(tag, number, step=step)
            writer.flush()

        return cpu_milliseconds(write, len(shown))


def summary_writer_cost(module: str, shown: Numbers) -> float:
    with tempfile.TemporaryDirectory() as directory:
        writer: Any = import_module(module).SummaryWriter(directory)

        def write(first: int, last: int) -> None:
            for step, rows in shown[first:last]:
                for tag, number in rows:
                    writer.add_scalar(tag, number, step)
            writer.flush()

        taken = cpu_milliseconds(write, len(shown))
        writer.close()
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--write", action="store_true", help="keep the result in results/")
    options = parser.parse_args()
    steps = [(reading, *reports) for reading, reports in readings(LAYERS, options.steps)]
    shown = numbers_of(steps)
    taken = {}
    for name, sink in {"TensorBoard": TensorBoard, "Store": Store}.items():
        taken[f"`{name}`, one by one"] = sink_cost(sink(), steps, 1)
        taken[f"`{name}`, {TOGETHER} steps together"] = sink_cost(sink(), steps, TOGETHER)
    for name, module in SUMMARY_WRITERS.items():
        if find_spec(module.partition(".")[0]) is not None:
            taken[f"{name}'s `SummaryWriter`"] = summary_writer_cost(module, shown)
    if find_spec("tensorflow") is not None:
        taken["`tf.summary.scalar`"] = tensorflow_cost(shown)
    sites = sum(map(len, steps[0]))
    lines = [
        f"CPU milliseconds a step, {sites} sites, {len(shown[0][1])} series. {machine()}.",
        "",
        "| | ms |",
        "|---|---|",
        *(f"| {name} | {ms:.3f} |" for name, ms in taken.items()),
    ]
    keep("sinks-cpu", "\n".join(lines), {"machine": machine(), "ms": taken}, options.write)


if __name__ == "__main__":
    main()
