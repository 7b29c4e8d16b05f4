from __future__ import annotations

import csv
import errno
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from gradwatch.core import Kind, Site
from gradwatch.sinks import CSV, RunInfo, Sink
from gradwatch.sinks import pipeline as pipeline_module
from gradwatch.sinks.pipeline import Pipeline
from gradwatch.util import Reporter
from gradwatch.util.worker import Worker
from tests.distributed.patience import until

RUN = RunInfo(Path())


class Recorder(Sink):
    """Keeps what it is told, and on which thread."""

    def __init__(self, threaded=True):
        self.threaded = threaded
        self.calls = []
        self.threads = set()

    def _note(self, *call):
        self.calls.append(call)
        self.threads.add(threading.current_thread().name)

    def open(self, run):
        self._note("open", run)

    def write(self, reading):
        self._note("write", reading.step)

    def epoch_end(self, epoch, logs):
        self._note("epoch_end", epoch, dict(logs))

    def close(self):
        self._note("close")

    @property
    def steps(self):
        return [call[1] for call in self.calls if call[0] == "write"]


class Faulty(Recorder):
    """Raises what `fault(step)` returns."""

    def __init__(self, fault, threaded=True):
        super().__init__(threaded)
        self.fault = fault

    def write(self, reading):
        fault = self.fault(reading.step)
        if fault is not None:
            raise fault
        super().write(reading)


class Hung(Recorder):
    def __init__(self):
        super().__init__()
        self.gate = threading.Event()

    def write(self, reading):
        self.gate.wait()
        super().write(reading)


@pytest.fixture
def readings(make_reading):
    """`readings(step)` makes a maker of a reading of three rows."""
    arrays = {Site(Kind.WEIGHT, f"layer{i}/k"): np.ones(2) for i in range(3)}
    return lambda step: lambda: make_reading(step, arrays)


def run_all(pipeline, readings, steps, **close):
    pipeline.open(RUN)
    for step in steps:
        assert pipeline.submit(readings(step), rows=3)
        assert pipeline._fetcher.drain(60.0)
    pipeline.close(**close)


def give_up_early(worker, monkeypatch, after=lambda: None):
    """Have a worker that hangs given up at once, or after something; what it was to be given.

    Else the others would have to be quicker than it is given up, whatever else a machine does.
    """
    given = []

    def close(timeout):
        given.append(timeout)
        after()
        return Worker.close(worker, 0.01)

    monkeypatch.setattr(worker, "close", close)
    return given


def test_every_sink_gets_every_reading_between_open_and_close(readings):
    sinks = [Recorder(), Recorder(threaded=False), Recorder()]
    said = []
    run_all(Pipeline(sinks, Reporter(said.append)), readings, range(1, 40))
    for sink in sinks:
        assert sink.calls == [("open", RUN), *(("write", s) for s in range(1, 40)), ("close",)]
    assert said == []


def test_a_sink_that_writes_has_a_thread_of_its_own(readings):
    sinks = [Recorder(), Recorder()]
    run_all(Pipeline(sinks, Reporter(print)), readings, [1, 2])
    assert [sink.threads for sink in sinks] == [{"gradwatch-Recorder"}, {"gradwatch-Recorder 2"}]


def test_readings_are_made_off_the_training_thread(readings):
    threads = []

    def make():
        threads.append(threading.current_thread())
        return readings(1)()

    pipeline = Pipeline([], Reporter(print))
    pipeline.open(RUN)
    pipeline.submit(make)
    pipeline.close()
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


def test_a_hung_sink_holds_up_neither_training_nor_the_other_sinks(readings, monkeypatch):
    hung, fine, said = Hung(), Recorder(), []
    pipeline = Pipeline([hung, fine], Reporter(said.append))
    pipeline.open(RUN)
    for step in range(1, 101):
        pipeline.submit(readings(step), rows=3)
        assert pipeline._fetcher.drain(60.0)
        assert pipeline._outlets[1]._worker.drain(60.0)
    assert fine.steps == list(range(1, 101))
    first, second = (outlet._worker for outlet in pipeline._outlets)
    given = give_up_early(first, monkeypatch, after=lambda: second._thread.join(60.0))
    pipeline.close(timeout=60.0)  # It hangs until after that.
    assert 0.0 < given[0] <= 60.0
    assert fine.calls[-1] == ("close",)
    # 1 was being written, the others waited.
    assert said == [
        "The record is not complete: Hung lost 100 readings (300 rows), did not finish in time."
    ]
    hung.gate.set()


def test_a_hung_device_is_given_up_in_time(readings, monkeypatch):
    gate, hangs, sink, said = threading.Event(), threading.Event(), Recorder(), []
    printer = Recorder(threaded=False)

    def hang():
        hangs.set()
        gate.wait()
        return readings(2)()

    pipeline = Pipeline([sink, printer], Reporter(said.append))
    pipeline.open(RUN)
    fetcher = pipeline._fetcher
    pipeline.submit(readings(1), rows=3)
    pipeline.submit(hang, rows=3)
    pipeline.submit(readings(3), rows=3)
    assert hangs.wait(60.0)
    given = give_up_early(fetcher, monkeypatch)
    pipeline.close(timeout=60.0)
    assert given == [45.0]  # The rest is for the sinks.
    assert sink.calls == [("open", RUN), ("write", 1), ("close",)]
    assert said == [
        "The record is not complete: Recorder lost 2 readings (6 rows); "
        "Recorder 2 lost 2 readings (6 rows)."
    ]
    gate.set()  # the device comes back, too late: nothing reaches a closed sink
    assert Worker.close(fetcher, 60.0)
    assert sink.calls == printer.calls == [("open", RUN), ("write", 1), ("close",)]


def test_what_comes_too_fast_is_dropped_without_waiting_and_counted_exactly(readings, monkeypatch):
    monkeypatch.setattr(pipeline_module, "MAX_PENDING", 128)
    gate, sinks, said = threading.Event(), [Recorder(), Recorder()], []

    def slow():
        gate.wait()
        return readings(0)()

    pipeline = Pipeline(sinks, Reporter(said.append))
    pipeline.open(RUN)
    pipeline.submit(slow, rows=3)
    while pipeline._fetcher._items:
        time.sleep(0.001)
    # Who waited would wait forever, for the gate is opened only afterwards.
    taken = [pipeline.submit(readings(step), rows=3) for step in range(1, 201)]
    assert taken == [True] * 128 + [False] * 72
    gate.set()
    pipeline.close(timeout=60.0)
    for sink in sinks:
        assert len(sink.steps) <= 129
    lost = [201 - len(sink.steps) for sink in sinks]
    assert said == [
        f"The record is not complete: Recorder lost {lost[0]} readings ({3 * lost[0]} rows); "
        f"Recorder 2 lost {lost[1]} readings ({3 * lost[1]} rows)."
    ]


def test_what_waits_to_be_made_is_limited_by_its_size_once_a_reading_was_made(readings):
    gate, sink = threading.Event(), Recorder()
    made = readings(1)()
    rows = pipeline_module.MAX_BYTES // (4 * made.nbytes // len(made))
    pipeline = Pipeline([sink], Reporter([].append))
    pipeline._row_bytes = 0  # Known from what was made, not guessed.
    pipeline.open(RUN)
    pipeline.submit(readings(1), rows=3)
    until(lambda: sink.steps == [1])

    def slow():
        gate.wait()

    pipeline.submit(slow, rows=0)
    until(lambda: not pipeline._fetcher.has_waiting)
    assert [pipeline.submit(readings(s), rows=rows) for s in range(6)] == [True] * 3 + [False] * 3
    gate.set()
    pipeline.close(timeout=60.0)


def test_rows_that_could_not_be_counted_are_not_made_up(readings):
    said = []

    def broken():
        raise ValueError("the device is gone")

    pipeline = Pipeline([Recorder()], Reporter(said.append))
    pipeline.open(RUN)
    pipeline.submit(broken, rows=3)
    pipeline.submit(broken)
    pipeline.submit(readings(1))
    pipeline.close()
    assert said == [
        "A measurement could not be fetched from the device: ValueError: the device is gone. "
        "Not recorded: that step. Training goes on; further such faults are only counted.",
        "The record is not complete: Recorder lost 2 readings (3 rows or more).",
    ]


def test_a_full_disk_is_said_once_and_recording_resumes(readings):
    full = OSError(errno.ENOSPC, "No space left on device")
    sink = Faulty(lambda step: full if step in range(3, 20) else None)
    said = []
    run_all(Pipeline([sink], Reporter(said.append)), readings, range(1, 31))
    assert sink.steps == [1, 2, *range(20, 31)]
    assert said == [
        "Faulty.write() failed: OSError: [Errno 28] No space left on device. Training goes on; "
        "further faults of this sink are only counted.",
        "The record is not complete: Faulty lost 17 readings (51 rows), had 17 faults.",
    ]


@pytest.mark.parametrize("threaded", [True, False])
def test_a_sink_with_a_bug_is_switched_off_after_three_faults_in_a_row(readings, threaded):
    tried = []

    def fault(step):
        tried.append(step)
        return ZeroDivisionError("a bug") if step != 3 else None

    sink, fine, said = Faulty(fault, threaded), Recorder(threaded=False), []
    run_all(Pipeline([sink, fine], Reporter(said.append)), readings, range(1, 10))
    assert tried == [1, 2, 3, 4, 5, 6]
    assert sink.steps == [3]
    assert sink.calls[-1] == ("close",)
    assert fine.steps == list(range(1, 10))
    assert said == [
        "Faulty.write() failed: ZeroDivisionError: a bug. Training goes on; "
        "further faults of this sink are only counted.",
        "Faulty failed 3 times in a row and is switched off, the last time with "
        "ZeroDivisionError: a bug. Training goes on.",
        "The record is not complete: Faulty lost 8 readings (24 rows), had 5 faults.",
    ]


def test_a_sink_that_could_not_be_opened_is_opened_with_the_next_reading(readings):
    class Late(Recorder):
        failures = 2

        def open(self, run):
            if self.failures:
                self.failures -= 1
                raise PermissionError("not yet")
            super().open(run)

    sink, said = Late(), []
    run_all(Pipeline([sink], Reporter(said.append)), readings, [1, 2, 3])
    assert sink.calls == [("open", RUN), ("write", 2), ("write", 3), ("close",)]
    assert said[0].startswith("Late.open() failed: PermissionError: not yet.")
    assert said[1:] == ["The record is not complete: Late lost 1 reading (3 rows), had 2 faults."]


def test_messages_are_said_on_the_training_thread(readings):
    threads = set()
    pipeline = Pipeline(
        [Faulty(lambda step: OSError("x"))],
        Reporter(lambda message: threads.add(threading.current_thread())),
    )
    run_all(pipeline, readings, [1, 2])
    assert threads == {threading.current_thread()}


def test_a_message_is_passed_on_with_the_next_submit(readings):
    said = []
    pipeline = Pipeline([Faulty(lambda step: OSError("x"), threaded=False)], Reporter(said.append))
    pipeline.open(RUN)
    pipeline.submit(readings(1), rows=3)
    assert pipeline._fetcher.drain(60.0)
    assert said == []
    pipeline.submit(readings(2), rows=3)
    assert len(said) == 1
    pipeline.close()


def test_a_say_that_raises_does_not_stop_training(readings):
    def say(message):
        raise RuntimeWarning(message)

    run_all(Pipeline([Faulty(lambda step: OSError("x"))], Reporter(say)), readings, [1, 2])


def test_an_exception_whose_text_raises_does_not_stop_training(readings):
    class NastyError(Exception):
        def __str__(self):
            raise ValueError

    said = []
    sinks = [Faulty(lambda step: NastyError(), threaded=False), Recorder()]
    run_all(Pipeline(sinks, Reporter(said.append)), readings, [1])
    assert said[0].startswith("Faulty.write() failed: NastyError. Training")
    assert sinks[1].steps == [1]


def test_at_the_end_of_an_epoch_a_printing_sink_has_the_newest_reading(readings):
    sink = Recorder(threaded=False)
    pipeline = Pipeline([sink], Reporter(print))
    pipeline.open(RUN)

    def slow():
        time.sleep(0.1)
        return readings(7)()

    pipeline.submit(slow)
    pipeline.epoch_end(2, {"loss": 0.5})
    assert sink.calls == [("open", RUN), ("write", 7), ("epoch_end", 2, {"loss": 0.5})]
    assert "MainThread" in sink.threads
    pipeline.close()


def test_the_end_of_an_epoch_waits_only_shortly_and_not_at_all_if_nobody_prints(
    readings, monkeypatch
):
    monkeypatch.setattr(pipeline_module, "EPOCH_PATIENCE", 0.2)
    for threaded in (False, True):
        gate, sink = threading.Event(), Recorder(threaded=threaded)

        def hang(gate=gate):
            gate.wait()
            return readings(1)()

        pipeline = Pipeline([sink], Reporter(print))
        pipeline.open(RUN)
        pipeline.submit(hang)
        fetcher = pipeline._fetcher
        waits = []
        drain = fetcher.drain
        monkeypatch.setattr(fetcher, "drain", lambda s, d=drain, w=waits: w.append((s, d(s))))
        pipeline.epoch_end(1, {})  # The device answers only afterwards.
        assert waits == ([] if threaded else [(0.2, False)])
        assert ("epoch_end", 1, {}) in sink.calls
        gate.set()
        pipeline.close()


def test_a_fault_at_the_end_of_an_epoch_is_said_and_ctrl_c_is_not_swallowed():
    class Printer(Sink):
        threaded = False
        fault: BaseException = ValueError("no")

        def epoch_end(self, epoch, logs):
            raise self.fault

    said, sink, other = [], Printer(), Recorder()
    pipeline = Pipeline([sink, other], Reporter(said.append))
    pipeline.open(RUN)
    pipeline.epoch_end(1, {})
    assert said == [
        "Printer.epoch_end() failed: ValueError: no. Training goes on; "
        "further faults of this sink are only counted."
    ]
    assert ("epoch_end", 1, {}) in other.calls
    sink.fault = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        pipeline.epoch_end(2, {})
    pipeline.close()


def test_a_pipeline_that_is_not_open_does_nothing(readings):
    sink = Recorder()
    pipeline = Pipeline([sink], Reporter(print))
    assert not pipeline.submit(readings(1))
    pipeline.epoch_end(1, {})
    pipeline.close()
    assert sink.calls == []


def test_a_pipeline_can_be_opened_again_and_counts_anew(readings):
    sink, said = Faulty(lambda step: OSError("x") if step == 1 else None), []
    pipeline = Pipeline([sink], Reporter(said.append))
    run_all(pipeline, readings, [1])
    assert len(said) == 2
    run_all(pipeline, readings, [2])
    assert len(said) == 2
    assert sink.calls == [
        ("open", RUN),
        ("close",),
        ("open", RUN),
        ("write", 2),
        ("close",),
    ]


def test_no_thread_stays_after_close(readings):
    before = set(threading.enumerate())
    run_all(Pipeline([Recorder(), Recorder()], Reporter(print)), readings, [1])
    assert set(threading.enumerate()) <= before  # One of an earlier test may end meanwhile.


PREAMBLE = """
import os, sys, time
from pathlib import Path
import numpy as np
from gradwatch.util import Reporter, exits
from gradwatch.core.reference import summarize
from gradwatch.core import Reading
from gradwatch.sinks import CSV, RunInfo, TensorBoard
from gradwatch.sinks.pipeline import Pipeline
from gradwatch.core import Kind, Site, Summary

# A busy machine may take longer than users are made to wait.
exits.PATIENCE = 60.0

def make(step):
    rows = Summary.unpack(np.array([summarize([1.0])]))
    return lambda: Reading(step, 1, 0.0, [Site(Kind.WEIGHT, "a/b")], rows)

pipeline = Pipeline([CSV(), TensorBoard()], Reporter(print))
pipeline.open(RunInfo(Path(sys.argv[1])))
for step in range(1, 31):
    pipeline.submit(make(step), rows=1)
"""


def steps_in(directory):
    with (directory / "summaries.csv").open(newline="") as file:
        return [int(row["step"]) for row in csv.DictReader(file)]


def test_at_exit_a_pipeline_that_nobody_closed_is_written_out(run_script, tmp_path, tensorboard):
    done = run_script(PREAMBLE, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert steps_in(tmp_path) == list(range(1, 31))
    points = tensorboard(tmp_path)["series"]["per_layer_weight_l2/a"][2]
    assert [step for step, _ in points] == list(range(1, 31))


def test_a_forked_child_writes_nothing_and_ends_at_once(run_script, tmp_path, tensorboard):
    child = """
child = os.fork()
if child == 0:
    taken = pipeline.submit(make(99), rows=1)
    pipeline.epoch_end(1, {})
    pipeline.close()
    sys.exit(1 if taken else 0)  # with its atexit
_, status = os.waitpid(child, 0)
assert status == 0, status
for step in range(31, 36):
    pipeline.submit(make(step), rows=1)
pipeline.close(60.0)
"""
    done = run_script(PREAMBLE + child, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert steps_in(tmp_path) == list(range(1, 36))
    points = tensorboard(tmp_path)["series"]["per_layer_weight_l2/a"][2]
    assert [step for step, _ in points] == list(range(1, 36))


def test_a_real_full_disk_loses_only_what_it_says(small_disk, make_reading):
    said, submitted = [], range(1, 41)
    arrays = {Site(Kind.GRADIENT, f"layer{i}/k"): [0.1] for i in range(60)}
    pipeline = Pipeline([CSV()], Reporter(said.append))
    pipeline.open(RunInfo(small_disk))
    for step in submitted:
        pipeline.submit(lambda step=step: make_reading(step, arrays), rows=60)
    pipeline.close(timeout=60.0)
    written = sorted(set(steps_in(small_disk)))
    lost = len(submitted) - len(written)
    assert 0 < lost < len(submitted)
    assert len(steps_in(small_disk)) == 60 * len(written)
    assert said[0].startswith("CSV.write() failed: OSError: [Errno 28]")
    assert said[1:] == [
        f"The record is not complete: CSV lost {lost} readings ({60 * lost} rows), "
        f"had {lost} faults."
    ]


def test_what_was_measured_is_quiet_though_other_numbers_still_come(readings):
    gate = threading.Event()

    class Numbers:
        is_measured = False

        def __call__(self):
            return [readings(2)()]

    class Waiting(Sink):
        def write(self, reading):
            if reading.step == 2:
                gate.wait(30)

    pipeline = Pipeline([Waiting()], Reporter())
    pipeline.open(RUN)
    pipeline.submit(readings(1))
    pipeline.flush_soon()
    until(lambda: pipeline.is_quiet)
    pipeline.submit(Numbers())
    pipeline.flush_soon()
    assert pipeline.is_quiet
    assert not pipeline.is_idle
    gate.set()
    pipeline.close()
