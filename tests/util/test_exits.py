"""However a process ends, nothing that was measured is lost, and its end is as it would be."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.conftest import SOURCES
from tests.store.written import written

START = """
import os, signal, sys, threading, time
from pathlib import Path
import numpy as np
import gradwatch
from gradwatch import Kind, Reading, Site, Summary
from gradwatch.util import Reporter, exits
from gradwatch.sinks import RunInfo, Sink, Store
from gradwatch.sinks.pipeline import Pipeline

# A busy machine may take longer than users are made to wait.
exits.PATIENCE = float(os.environ.get("PATIENCE", "60"))

directory = Path(sys.argv[1])
class Slow(Sink):
    def write(self, reading):
        time.sleep(float(os.environ.get("DELAY", "0")))
def reading(step):
    rows = Summary.unpack(np.full((3, 10), float(step)))
    return Reading(step, 1, 0.0, [Site(Kind.WEIGHT, f"w{i}") for i in range(3)], rows)
pipeline = Pipeline([Store(), Slow()], Reporter(lambda message: print(message, file=sys.stderr)))
def train(steps):
    pipeline.open(RunInfo(directory))
    for step in range(1, steps + 1):
        pipeline.submit(lambda step=step: reading(step), 3)
def until_stored():
    assert pipeline._fetcher.drain(60) and pipeline._outlets[0]._worker.drain(60)
"""
ENDINGS = {
    "end of the script": ("train(50)", 0),
    "sys.exit": ("train(50); sys.exit(5)", 5),
    "exception": ("train(50); raise ValueError", 1),
    "SIGTERM": ("train(50); os.kill(os.getpid(), signal.SIGTERM); time.sleep(99)", -signal.SIGTERM),
    "SIGTERM in a sleep": (
        "train(50); threading.Timer(0.1, os.kill, (os.getpid(), 15)).start(); time.sleep(99)",
        -signal.SIGTERM,
    ),
    "SIGINT": (
        "train(50); threading.Timer(0.1, os.kill, (os.getpid(), 2)).start(); time.sleep(99)",
        -signal.SIGINT,
    ),
}


def end(code, directory, **environment):
    directory.mkdir(exist_ok=True)
    script = directory.with_suffix(".py")
    script.write_text(START + code)
    return subprocess.run(
        [sys.executable, str(script), str(directory)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": SOURCES, **environment},
    )


@pytest.mark.parametrize("how", ENDINGS)
def test_no_row_is_lost_and_the_exit_status_is_the_true_one(tmp_path, how):
    code, status = ENDINGS[how]
    done = end(code, tmp_path)
    assert done.returncode == status, done.stderr
    found = written(tmp_path)
    assert sorted(row[3] for row in found.rows) == sorted([*range(1, 51)] * 3)
    assert all(row[6] == row[3] for row in found.rows)
    (ended,) = found.ended.values()
    assert ended["lost_rows"] == 0


def test_a_sink_that_hangs_does_not_hold_up_the_end(tmp_path):
    for name in ("SIGTERM", "end of the script"):
        code, status = ENDINGS[name]
        # That it ends at all shows it: the sink hangs for longer than `end` waits.
        waiting = code.replace("train(50)", "train(50); until_stored()")
        done = end(waiting, tmp_path / name, DELAY="1000", PATIENCE="4")
        assert done.returncode == status, done.stderr
        assert len(written(tmp_path / name).rows) == 150


def test_a_second_signal_ends_the_process_at_once(tmp_path):
    code = """
train(5)
signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
signal.setitimer(signal.ITIMER_REAL, 0.3, 0.3)  # Again, should the first come before the other.
os.kill(os.getpid(), signal.SIGTERM)
"""
    done = end(code, tmp_path, DELAY="1000", PATIENCE="1000")
    assert done.returncode == -signal.SIGTERM, done.stderr


def test_a_handler_of_the_users_is_left_alone(tmp_path):
    code = """
def own(*_):
    print("mine")
signal.signal(signal.SIGTERM, own)
train(5)
assert signal.getsignal(signal.SIGTERM) is own
os.kill(os.getpid(), signal.SIGTERM)
pipeline.close()
assert signal.getsignal(signal.SIGTERM) is own
"""
    done = end(code, tmp_path)
    assert (done.returncode, done.stdout) == (0, "mine\n"), done.stderr


def test_a_handler_that_the_user_sets_meanwhile_stays(tmp_path):
    code = """
train(5)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pipeline.close()
assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
"""
    assert end(code, tmp_path).returncode == 0


def test_after_close_the_signal_is_as_it_was(tmp_path):
    code = """
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
train(5)
assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
pipeline.close()
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
"""
    done = end(code, tmp_path)
    assert done.returncode == 0, done.stderr


def test_training_on_another_thread_is_not_disturbed(tmp_path):
    code = """
thread = threading.Thread(target=train, args=(50,))
thread.start(); thread.join()
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
"""
    done = end(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(written(tmp_path).rows) == 150


def test_a_forked_child_ends_by_the_signal_at_once_and_writes_nothing(tmp_path):
    code = """
train(5)
child = os.fork()
if child == 0:
    time.sleep(99)
    os._exit(1)
os.kill(child, signal.SIGTERM)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
"""
    done = end(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(written(tmp_path).rows) == 15


def test_a_signal_while_the_main_thread_holds_a_lock_does_not_block(tmp_path):
    code = """
train(5)
with exits.critical, pipeline._fetcher._change:  # Closing waits for this lock.
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.2)
time.sleep(99)
"""
    done = end(code, tmp_path)
    assert done.returncode == -signal.SIGTERM, done.stderr
    assert len(written(tmp_path).rows) == 15
    (ended,) = written(tmp_path).ended.values()
    assert ended is not None


def test_signals_at_any_moment_of_submitting_do_not_block(tmp_path):
    code = """
signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
signal.setitimer(signal.ITIMER_REAL, 0.2 + float(os.environ["DELAY"]))
train(10**9)
"""
    for microseconds in (0, 137, 911):
        place = tmp_path / str(microseconds)
        done = end(code, place, DELAY=str(microseconds / 1e6), PATIENCE="600")
        assert done.returncode == -signal.SIGTERM, done.stderr
        (ended,) = written(place).ended.values()
        assert ended is not None
