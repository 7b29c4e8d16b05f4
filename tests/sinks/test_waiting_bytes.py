"""What waits for a sink that hangs holds a limited amount of memory."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest

from gradwatch import Kind, Reading, Sink, Site, Summary
from gradwatch.sinks import RunInfo
from gradwatch.sinks.pipeline import MAX_BYTES, Pipeline
from gradwatch.util import Reporter
from gradwatch.util.worker import Worker


class Hung(Sink):
    def __init__(self):
        self.gate = threading.Event()
        self.steps = []

    def write(self, reading):
        self.gate.wait()
        self.steps.append(reading.step)


class Quick(Sink):
    def __init__(self):
        self.steps = []

    def write(self, reading):
        self.steps.append(reading.step)


def reading(step, megabytes):
    cells = np.zeros(int(megabytes * 125_000))
    return Reading(step, 1, 0.0, [Site(Kind.WEIGHT, "a/b")], Summary.empty((1,)), cells={0: cells})


def test_a_reading_knows_how_much_it_holds():
    picture = np.zeros((4, 4, 3), np.uint8)
    site = Site(Kind.WEIGHT, "a/b")
    made = Reading(
        1, 1, 0.0, [site], Summary.empty((1,)), cells={0: np.zeros(7)}, pictures={site: picture}
    )
    assert made.nbytes == 10 * 8 + 7 * 8 + 48


def test_a_hung_sink_keeps_no_more_than_its_part_and_the_losses_are_exact():
    hung, quick, said = Hung(), Quick(), []
    pipeline = Pipeline([hung, quick], Reporter(said.append))
    pipeline.open(RunInfo(Path()))
    for step in range(1, 41):
        assert pipeline.submit(lambda step=step: reading(step, 4))
        assert pipeline._fetcher.drain(60.0)
        assert pipeline._outlets[1]._worker.drain(60.0)
    held = pipeline._outlets[0]._worker._bytes
    assert 0.8 * MAX_BYTES / 2 < held <= MAX_BYTES / 2
    hung.gate.set()
    pipeline.close(timeout=60.0)
    assert quick.steps == list(range(1, 41))
    assert hung.steps == list(range(1, 8))
    assert said == ["The record is not complete: Hung lost 33 readings (33 rows)."]


def test_there_is_room_for_one_reading_of_any_size():
    quick, said = Quick(), []
    pipeline = Pipeline([quick], Reporter(said.append))
    pipeline.open(RunInfo(Path()))
    for step in (1, 2):
        pipeline.submit(lambda step=step: reading(step, 70))
        pipeline._fetcher.drain(60.0)
        pipeline._outlets[0]._worker.drain(60.0)
    pipeline.close(timeout=60.0)
    assert (quick.steps, said) == ([1, 2], [])


def test_room_comes_back_when_items_are_handled_also_if_that_fails():
    worker = Worker("test", lambda item: 1 / 0, size_of=len, max_bytes=10)
    for _ in range(5):
        assert worker.submit("12345678")
        assert worker.drain(60.0)
    assert worker.is_idle
    assert worker._bytes == 0
    assert worker.close(60.0)


@pytest.mark.parametrize("threaded", [True, False])
def test_a_pipeline_is_idle_when_all_sinks_have_written(threaded):
    hung = Hung()
    hung.threaded = threaded
    pipeline = Pipeline([Quick(), hung], Reporter(print))
    assert pipeline.is_idle
    pipeline.open(RunInfo(Path()))
    pipeline.submit(lambda: reading(1, 0.1))
    assert not pipeline.is_idle
    hung.gate.set()
    start = time.monotonic()
    while not pipeline.is_idle:
        assert time.monotonic() - start < 60.0
        time.sleep(0.001)
    assert hung.steps == [1]
    pipeline.close()
    assert pipeline.is_idle
