"""Readings that come in quick succession are taken together, and nothing else is different."""

from __future__ import annotations

import errno
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from gradwatch.core import Kind, Reading, Site, Summary
from gradwatch.sinks import RunInfo, Sink, Store, TensorBoard
from gradwatch.sinks import pipeline as pipeline_module
from gradwatch.sinks.event_file import record, version_event
from gradwatch.sinks.pipeline import Pipeline
from gradwatch.util import Reporter
from gradwatch.util.worker import Worker
from tests.store.written import written

RUN = RunInfo(Path())
FOREVER = 1e6


def until(is_so):
    deadline = time.monotonic() + 60.0
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def rested(worker):
    """The worker, after its first item: now it rests."""
    assert worker.submit(0)
    until(lambda: worker._is_batching)
    return worker


@pytest.mark.parametrize(
    "ask", [Worker.flush_soon, lambda w: w.drain(60.0), lambda w: w.close(60.0)]
)
def test_items_wait_for_each_other_until_they_are_asked_for(ask):
    seen = []
    worker = rested(Worker("test", seen.extend, batch_interval=FOREVER))
    for item in range(1, 6):
        worker.submit(item)
    assert seen == [0]  # It sleeps forever, unless it is asked.
    assert not worker.is_idle
    ask(worker)
    until(lambda: worker.is_idle)
    assert seen == list(range(6))
    assert worker.close(60.0)


def test_items_do_not_wait_when_a_quarter_of_the_room_is_taken():
    seen = []
    worker = rested(Worker("test", seen.extend, limit=20, batch_interval=FOREVER))
    for item in range(1, 5):
        worker.submit(item)
    assert seen == [0]
    worker.submit(5)
    until(lambda: worker.is_idle)
    assert seen == list(range(6))
    assert worker.close(60.0)


def test_items_do_not_wait_when_they_hold_a_quarter_of_the_bytes():
    seen = []
    worker = Worker("test", seen.extend, size_of=lambda n: n, max_bytes=100, batch_interval=FOREVER)
    rested(worker)
    worker.submit(24)
    assert seen == [0]
    worker.submit(1)
    until(lambda: worker.is_idle)
    assert seen == [0, 24, 1]
    assert worker.close(60.0)


def test_an_item_after_the_rest_is_handled_at_once():
    seen = []
    worker = Worker("test", seen.extend, batch_interval=0.001)
    for item in range(5):
        worker.submit(item)
        until(lambda item=item: item in seen)
    assert worker.close(60.0)


@pytest.mark.parametrize(("size", "most"), [(0, 32), (300_000, 3), (2_000_000, 1)])
def test_what_waits_is_handled_together_up_to_a_number_and_a_size(size, most):
    gate, calls = threading.Event(), []

    def handle(items):
        gate.wait(60.0)
        calls.append(list(items))

    worker = Worker("test", handle, 1000, together=32, size_of=lambda item: size)
    worker.submit(0)
    until(lambda: not worker._items)
    for item in range(1, 101):
        worker.submit(item)
    gate.set()
    assert worker.close(60.0)
    assert [item for call in calls for item in call] == list(range(101))
    assert max(map(len, calls)) == most
    assert worker._bytes == 0


def test_what_was_being_handled_together_is_given_up_as_a_whole():
    gate, begun = threading.Event(), threading.Event()

    def hang(items):
        if list(items) != [0]:
            begun.set()
            gate.wait(60.0)

    worker = Worker("test", hang, together=32, batch_interval=FOREVER)
    rested(worker)
    for item in range(1, 4):
        worker.submit(item)
    worker.flush_soon()
    assert begun.wait(60.0)
    worker.submit(4)
    assert not worker.close(0.01)
    assert worker.unfinished == (1, 2, 3, 4)
    gate.set()
    assert worker.close(60.0)


class Many(Sink):
    """Takes many at once, or fails to."""

    def __init__(self, fails_at=(), fails_together=False):
        self.fails_at, self.fails_together = fails_at, fails_together
        self.calls, self.gate = [], threading.Event()

    def open(self, run):
        self.gate.wait(60.0)

    def write(self, reading):
        if reading.step in self.fails_at:
            raise OSError(errno.ENOSPC, "full")
        self.calls.append([reading.step])

    def write_many(self, readings):
        steps = [reading.step for reading in readings]
        if self.fails_together or set(steps) & set(self.fails_at):
            raise OSError(errno.ENOSPC, "full")
        self.calls.append(steps)


class Own(Many):
    """A user's, with another way to write."""

    def write(self, reading):
        self.calls.append(("own", reading.step))


def readings(steps):
    rows = Summary.unpack(np.ones((3, 10)))
    sites = [Site(Kind.WEIGHT, f"layer{i}/k") for i in range(3)]
    return [Reading(step, 1, 0.0, sites, rows) for step in steps]


def write_together(sink, count=20):
    """Have a sink get so many readings that have all been waiting for it; what was said."""
    said = []
    pipeline = Pipeline([sink], Reporter(said.append))
    pipeline.open(RUN)
    for reading in readings(range(1, count + 1)):
        assert pipeline.submit(lambda reading=reading: reading, 3)
    assert pipeline._fetcher.drain(60.0)
    sink.gate.set()
    pipeline.close(timeout=60.0)
    return said


def test_a_sink_that_takes_many_gets_those_that_wait_in_order():
    sink = Many()
    assert write_together(sink) == []
    assert [step for call in sink.calls for step in call] == list(range(1, 21))
    assert len(sink.calls) < 20


def test_when_many_fail_each_is_tried_by_itself_and_only_those_that_fail_are_lost():
    sink = Many(fails_at=(5, 9))
    said = write_together(sink)
    assert sink.calls == [[step] for step in range(1, 21) if step not in (5, 9)]
    assert said[0].startswith("Many.write() failed: OSError: [Errno 28] full.")
    assert said[1:] == ["The record is not complete: Many lost 2 readings (6 rows), had 2 faults."]


def test_a_failure_of_many_of_which_each_succeeds_is_no_fault():
    sink = Many(fails_together=True)
    assert write_together(sink) == []
    assert sink.calls == [[step] for step in range(1, 21)]


def test_a_write_that_a_user_has_overridden_is_not_passed_by():
    sink = Own()
    assert write_together(sink) == []
    assert sink.calls == [("own", step) for step in range(1, 21)]
    patched = Many()
    patched.write = lambda reading: patched.calls.append(("patched", reading.step))
    assert write_together(patched) == []
    assert patched.calls == [("patched", step) for step in range(1, 21)]


def test_readings_far_apart_are_written_at_once_and_close_ones_at_an_epochs_end(monkeypatch):
    monkeypatch.setattr(pipeline_module, "BATCH_INTERVAL", FOREVER)
    sink = Many()
    sink.gate.set()
    pipeline = Pipeline([sink], Reporter(print))
    pipeline.open(RUN)
    monkeypatch.setattr(pipeline_module, "DENSE", -1.0)  # All are far apart.
    for reading in readings([1, 2]):
        pipeline.submit(lambda reading=reading: reading)
        until(lambda: pipeline.is_idle)
    monkeypatch.setattr(pipeline_module, "DENSE", FOREVER)
    until(lambda: pipeline._fetcher._is_batching)
    for reading in readings([3, 4]):
        pipeline.submit(lambda reading=reading: reading)
    assert [step for call in sink.calls for step in call] == [1, 2]
    pipeline.epoch_end(1, {})
    until(lambda: pipeline.is_idle)
    assert [step for call in sink.calls for step in call] == [1, 2, 3, 4]
    pipeline.close()


KINDS = (Kind.GRADIENT, Kind.WEIGHT, Kind.UPDATE, Kind.OUTPUT)
SITES = (
    *(Site(kind, f"net/{name}") for kind in KINDS for name in ("a/kernel", "a/bias", "b/kernel")),
    Site(Kind.LOSS, "loss"), Site(Kind.SPECTRAL_NORM, "net/a/kernel"),
)  # fmt: skip


def varied(step):
    """Readings with all that there is, now and then."""
    rng = np.random.default_rng(step)
    tensors = [rng.normal(size=5) for _ in SITES[:-2]] + [rng.normal(size=1) for _ in range(2)]
    if step % 5 == 2:
        tensors[0][:3] = np.nan, np.inf, -np.inf
        tensors[-2][:] = np.nan
    if step % 7 == 3:
        tensors[3] = np.zeros(0)
        tensors[4] = np.zeros(5)
        tensors[-2][:] = -np.inf
    rows = np.stack([Summary.of(x).pack() for x in tensors])
    sites = SITES[:6] if step % 11 == 4 else SITES
    cells = {1: np.eye(300)[step]} if step % 6 == 1 else {}
    pictures = {SITES[0]: np.full((2, 2, 3), step, np.uint8)} if step % 8 == 5 else {}
    return Reading(
        step, 1 + step // 20, float(step), sites, Summary.unpack(rows[: len(sites)]), cells,
        pictures=pictures,
    )  # fmt: skip


@pytest.fixture(params=[2, 7, 32])
def pieces(request):
    made = [varied(step) for step in range(1, 65)]
    return [made[i : i + request.param] for i in range(0, len(made), request.param)]


def write(sink, run, pieces, are_together):
    sink.open(run)
    for piece in pieces:
        if are_together:
            sink.write_many(piece)
        else:
            for reading in piece:
                sink.write(reading)
    sink.close()


def test_tensorboard_gets_the_same_bytes_of_many_as_of_one_by_one(tmp_path, pieces):
    meaning = {kind: f"about {kind}" for kind in KINDS}
    files = []
    for name in ("together", "one by one"):
        write(TensorBoard(), RunInfo(tmp_path / name, meaning=meaning), pieces, name == "together")
        (file,) = (tmp_path / name).iterdir()
        # After the first record, which tells the time at which the file was made.
        files.append(file.read_bytes()[len(record(version_event(0.0))) :])
    assert files[0] == files[1]


def test_the_store_keeps_the_same_of_many_as_of_one_by_one(tmp_path, pieces):
    kept = []
    for name in ("together", "one by one"):
        write(Store(), RunInfo(tmp_path / name), pieces, name == "together")
        found = written(tmp_path / name)
        kept.append((found.rows, found.cells, found.pictures, found.lost_rows))
    assert repr(kept[0]) == repr(kept[1])
    assert len({row[3] for row in kept[0][0]}) == 64


@pytest.mark.parametrize("sink", [Store(), TensorBoard()])
def test_many_are_refused_before_the_sink_is_open(sink):
    with pytest.raises(RuntimeError, match="before open"):
        sink.write_many(readings([1]))
