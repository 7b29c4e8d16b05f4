"""What the processes of this suite do: train, and end or be ended in all ways."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import re
import shutil
import signal
import struct
import sys
import threading
import time
import tracemalloc
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import gradwatch
from gradwatch.sinks import RunInfo, Store
from gradwatch.sinks import pipeline as pipeline_module
from gradwatch.sinks.pipeline import Pipeline
from gradwatch.store.writer import StoreWriter
from gradwatch.util import Reporter, exits
from gradwatch.util.reporter import GradwatchWarning
from tests.distributed.patience import be_patient
from tests.faults import truth

MARK = struct.Struct("<qd")


class SmallStore(Store):
    """A store that seals a journal every few steps, so that faults fall into that, too."""

    def __init__(self, rank: int = 0, rows_a_journal: int = 150) -> None:
        super().__init__(rank)
        self._rows_a_journal = rows_a_journal

    def open(self, run: RunInfo) -> None:
        self.close()
        self._writer = StoreWriter(
            run.directory, run.first_step, self.rank, rows_a_journal=self._rows_a_journal
        )


def reading(seed: int, step: int, paths: Sequence[str] = truth.PATHS) -> gradwatch.Reading:
    """The true reading of a step, without a monitor."""
    arrays = truth.gradients(seed, step, paths)
    rows = np.stack([gradwatch.Summary.of(array).pack() for array in arrays.values()])
    sites = [gradwatch.Site(gradwatch.Kind.GRADIENT, path) for path in arrays]
    return gradwatch.Reading(step, 1, 1.7e9 + step, sites, gradwatch.Summary.unpack(rows))


def monitor_of(directory: str | Path, *sinks: gradwatch.Sink) -> gradwatch.Monitor:
    """A monitor of every gradient of every step."""
    return gradwatch.Monitor(
        directory,
        every=1,
        watch=gradwatch.gradients(),
        sinks=list(sinks) or [SmallStore()],
        diagnose=False,
    )


def record(monitor: Any, seed: int, steps: Iterable[int], pause: float = 0.0) -> None:
    """Train: record the true tensors of the steps."""
    for step in steps:
        monitor.record(gradients=truth.gradients(seed, step), step=step)
        if pause:
            time.sleep(pause)


def train_until_killed(directory: str, seed: int, black_box: str) -> None:
    """Records without end; what has been handed over is noted beside the run, with the time."""
    monitor = monitor_of(directory)
    notes = os.open(black_box, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    step = 0
    while True:
        step += 1
        record(monitor, seed, [step], pause=0.004)
        # A disk that stands still for a moment is not what is tried here.
        while _waiting(monitor) > 50:
            time.sleep(0.001)
        os.write(notes, MARK.pack(step, time.monotonic()))


def _waiting(monitor: Any) -> int:
    """How many readings are not written yet; of very many, some would be lost."""
    pipeline = monitor._session.pipeline
    workers = (pipeline._fetcher, *(outlet._worker for outlet in pipeline._outlets))
    return max(len(worker._items) for worker in workers)


def drain(monitor: Any) -> None:
    """Wait until all that was recorded is written, or lost."""
    while not monitor._session.is_idle:
        time.sleep(0.002)


class Hanging(gradwatch.Sink):
    """A sink that takes its time for each reading."""

    def __init__(self, seconds: float = 1e9) -> None:
        self.seconds = seconds
        self.begun = self.written = 0

    def write(self, reading: gradwatch.Reading) -> None:
        self.begun += 1
        time.sleep(self.seconds)
        self.written += 1


def end_by(how: str, directory: str, seed: int, steps: int, note: str, hangs: bool) -> None:
    """Trains, notes the time, and ends."""
    # A busy machine may take longer than users are made to wait.
    exits.PATIENCE = 3.0 if hangs else 60.0
    sinks = [SmallStore(), gradwatch.TensorBoard(), *([Hanging()] if hangs else [])]
    monitor = monitor_of(directory, *sinks)
    for step in range(1, steps + 1):
        record(monitor, seed, [step], pause=0.002)
    if hangs:  # For what is not written by then, there are the endings without one that hangs.
        pipeline = monitor._session.pipeline
        for worker in (pipeline._fetcher, *(each._worker for each in pipeline._outlets[:2])):
            assert worker.drain(60.0)
    Path(note).write_text(str(time.monotonic()))
    if how == "sys.exit":
        sys.exit(5)
    if how == "exception":
        raise ValueError("the training's own")
    if how.startswith("SIG"):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.kill(os.getpid(), getattr(signal, how))
        time.sleep(60)


class FailingDisk:
    """Makes certain of the calls by which files are written fail.

    Args:
        fault: the name of an error, or `"deleted"`.
        faults: at which of these calls, counted from 1.
        directory: the run's.
    """

    def __init__(self, fault: str, faults: Iterable[int], directory: Path) -> None:
        self.fault, self.faults, self.directory = fault, set(faults), directory
        self.calls = self.made = 0
        self._lock = threading.Lock()
        for name in ("write", "fsync", "open"):
            setattr(os, name, self._failing(getattr(os, name)))

    def _failing(self, call: Any) -> Any:
        def failing(*args: Any, **options: Any) -> Any:
            with self._lock:
                self.calls += 1
                is_due = self.calls in self.faults
                self.made += is_due
            if is_due and self.fault == "deleted":
                shutil.rmtree(self.directory, ignore_errors=True)
            elif is_due:
                number = getattr(errno, self.fault)
                raise OSError(number, os.strerror(number))
            return call(*args, **options)

        return failing


def train_on_a_failing_disk(directory: str, seed: int, fault: str, faults: list[int]) -> None:
    """Trains until all faults are past, and then a little; tells what came of it."""
    monitor = monitor_of(directory, gradwatch.Store())
    disk = FailingDisk(fault, faults, Path(directory))
    step = 0
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        while disk.calls <= max(faults) + 30:
            step += 1
            record(monitor, seed, [step])
            if step % 20 == 0:  # Fewer than a queue has room for.
                drain(monitor)
        monitor.close()
    messages = [str(w.message) for w in said if issubclass(w.category, GradwatchWarning)]
    lost = [re.search(r"Store lost \d+ readings? \((\d+) row", text) for text in messages]
    told = {
        "steps": step,
        "faults": disk.made,
        "lost": sum(int(found.group(1)) for found in lost if found),
        "said": messages,
    }
    print(json.dumps(told))


def train_without_permission(directory: str, seed: int) -> None:
    """Trains as somebody who may not write there."""
    os.setuid(65534)
    with monitor_of(directory, gradwatch.Store()) as monitor:
        record(monitor, seed, range(1, 21))


def train_with_a_slow_sink(directory: str, seed: int, steps: int, seconds: float) -> None:
    """Trains with a slow sink beside the store; tells what was lost."""
    if seconds >= 1.0:
        pipeline_module.CLOSING_TIME = 2.0
    slow = Hanging(seconds)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with monitor_of(directory, gradwatch.Store(), slow) as monitor:
            for step in range(1, steps + 1):
                record(monitor, seed, [step])
                pipeline = monitor._session.pipeline
                store = pipeline._outlets[0]
                assert pipeline._fetcher.drain(600.0)
                assert store._worker.drain(600.0)
    messages = [str(w.message) for w in said if issubclass(w.category, GradwatchWarning)]
    lost = [int(n) for text in messages for n in re.findall(r"Hanging lost (\d+) reading", text)]
    told = {
        "written": slow.written,
        "under_way": slow.begun - slow.written,
        "lost": sum(lost),
        "said": messages,
    }
    print(json.dumps(told))


def flood(directory: str, readings: int, sites: int) -> None:
    """Sends large readings to sinks that hang; tells how much memory that takes at most."""
    names = [gradwatch.Site(gradwatch.Kind.GRADIENT, str(i)) for i in range(sites)]
    sinks, said = [Hanging(), Hanging(), Hanging()], []
    pipeline = Pipeline(sinks, Reporter(said.append))
    pipeline.open(RunInfo(Path(directory)))
    tracemalloc.start()
    for step in range(1, readings + 1):
        rows = gradwatch.Summary.unpack(np.full((sites, 10), float(step)))
        made = gradwatch.Reading(step, 1, 0.0, names, rows)
        pipeline.submit(lambda made=made: made, sites)
        del rows, made
        assert pipeline._fetcher.drain(600.0)
    now, most = tracemalloc.get_traced_memory()
    one = 80 * sites
    pipeline.close(timeout=0.1)
    print(json.dumps({"now": now, "most": most, "one": one, "said": said}))


def touch(directory: str, number: int) -> None:
    """What a child may do: read the run, and keep one of its own."""
    be_patient()
    with monitor_of(Path(directory).with_name(f"child-{number}"), SmallStore()) as own:
        record(own, 100 + number, [1, 2, 3])
    with gradwatch.open(directory) as run:
        assert not run.damage
    print("child done", flush=True)


def train_with_children(way: str, directory: str, seed: int, children: int) -> None:
    """Trains; after every tenth step a child is made, which touches what its parent has open."""
    monitor = monitor_of(directory)

    def in_child(number: int) -> None:
        monitor.record(gradients=truth.gradients(seed, 1), step=10_000)
        monitor.due(1)
        monitor.close()
        touch(directory, number)

    for number in range(children):
        record(monitor, seed, range(10 * number + 1, 10 * number + 11), pause=0.001)
        if way.startswith("fork") and way != "forkserver":
            child = os.fork()
            if child == 0:
                in_child(number)
                if way == "fork":
                    os._exit(0)
                sys.exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        else:
            context = multiprocessing.get_context(way.split()[-1])
            target, args = (touch, (directory, number))
            if way == "multiprocessing fork":
                target, args = in_child, (number,)
            process = context.Process(target=target, args=args)
            process.start()
            process.join(600)
            assert process.exitcode == 0, process.exitcode
    record(monitor, seed, range(10 * children + 1, 10 * children + 11), pause=0.001)
    monitor.close()


def read_for(directory: str, seed: int, seconds: float, way: str) -> None:
    """Looks at a run again and again; tells how often, and how many steps it saw."""
    seen: list[int] = []
    run = gradwatch.open(directory)
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(seen) < 3 or seen[-1] == seen[0]:
        if way == "open":
            run.close()
            run = gradwatch.open(directory)
        else:
            run.refresh()
        assert not run.damage, run.damage
        assert run.status == "live"
        steps = truth.steps_in(run, seed)
        assert steps == list(range(1, len(steps) + 1))
        assert not seen or len(steps) >= seen[-1], (len(steps), seen[-1])
        assert run.rows >= len(steps) * len(truth.PATHS)
        seen.append(len(steps))
    print(json.dumps({"looks": len(seen), "first": seen[0], "last": seen[-1]}))


def train_and_end(
    directory: str, seed: int, first: int, steps: int, ending: str, pause: float = 0.0
) -> None:
    """Trains from a step on, and ends."""
    monitor = monitor_of(directory)
    for step in range(first, first + steps):
        record(monitor, seed, [step], pause)
        drain(monitor)
    if ending == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if ending == "close":
        monitor.close()


def train_as_rank(directory: str, rank: int, steps: int) -> None:
    """One of several processes that write into one run."""
    store = SmallStore(rank)
    store.open(RunInfo(Path(directory)))
    for step in range(1, steps + 1):
        store.write(reading(rank, step))
        time.sleep(0.002)
    store.close()
