"""A thread that handles items: order, limits, faults, forks."""

from __future__ import annotations

import threading
import time

import pytest

from gradwatch.util.worker import Worker


@pytest.fixture
def gate():
    """An event that a handler waits for; opened at the end, so that no thread stays."""
    event = threading.Event()
    yield event
    event.set()


def test_items_are_handled_in_order_on_another_thread():
    seen = []
    worker = Worker("test", lambda items: seen.append((*items, threading.current_thread().name)))
    for i in range(50):
        assert worker.submit(i)
    assert worker.close(60.0)
    assert seen == [(i, "test") for i in range(50)]


def test_the_thread_is_a_daemon_and_starts_with_the_first_item():
    worker = Worker("lazy", lambda item: None)
    assert "lazy" not in [t.name for t in threading.enumerate()]
    worker.submit(1)
    (thread,) = [t for t in threading.enumerate() if t.name == "lazy"]
    assert thread.daemon
    assert worker.close(60.0)
    assert not thread.is_alive()


def test_submit_never_blocks_and_tells_what_it_does_not_take(gate):
    seen = []

    def slow(items):
        gate.wait()
        seen.extend(items)

    worker = Worker("test", slow, limit=3)
    worker.submit("busy")
    while worker._items:  # until the thread has taken it
        time.sleep(0.001)
    # Who waited would wait forever, for the gate is opened only afterwards.
    taken = [worker.submit(i) for i in range(10)]
    assert taken == [True] * 3 + [False] * 7
    gate.set()
    assert worker.close(60.0)
    assert seen == ["busy", 0, 1, 2]


def test_a_fault_is_given_to_the_callback_and_the_worker_goes_on():
    seen, faults = [], []

    def handle(items):
        (item,) = items
        if item % 2:
            raise {1: ValueError, 3: SystemExit}[item](item)
        seen.append(item)

    worker = Worker("test", handle, on_fault=faults.append)
    for i in range(5):
        worker.submit(i)
    assert worker.close(60.0)
    assert seen == [0, 2, 4]
    assert [(type(fault), fault.args) for fault in faults] == [
        (ValueError, (1,)),
        (SystemExit, (3,)),
    ]


def test_a_callback_that_raises_itself_does_not_end_the_worker():
    seen = []

    def handle(items):
        seen.extend(items)
        raise ValueError

    worker = Worker("test", handle, on_fault=lambda fault: 1 / 0)
    worker.submit(1)
    worker.submit(2)
    assert worker.close(60.0)
    assert seen == [1, 2]


def test_drain_waits_for_what_was_submitted_before_it(gate):
    seen = []

    def slow(items):
        gate.wait()
        seen.extend(items)

    worker = Worker("test", slow)
    assert worker.drain(0.0)
    worker.submit(1)
    start = time.monotonic()
    assert not worker.drain(0.05)
    assert time.monotonic() - start > 0.04
    gate.set()
    assert worker.drain(60.0)
    assert seen == [1]
    assert worker.submit(2)
    assert worker.close(60.0)
    assert seen == [1, 2]


def test_close_gives_up_on_a_hung_item_in_time_and_names_what_was_not_done(gate):
    seen = []

    def hang(items):
        gate.wait()
        seen.extend(items)

    worker = Worker("test", hang)
    for i in range(4):
        worker.submit(i)
    while len(worker._items) == 4:
        time.sleep(0.001)
    assert not worker.close(0.05)  # It hangs until the gate is opened, below.
    assert worker.unfinished == (0, 1, 2, 3)
    gate.set()
    assert worker.close(60.0)
    assert seen == [0]  # what was given up is not done after all


def test_a_closed_worker_takes_nothing():
    worker = Worker("test", lambda item: None)
    assert worker.close(60.0)
    assert not worker.submit(1)
    assert worker.close(60.0)


def test_at_end_is_called_on_the_thread_after_the_last_item():
    seen = []
    worker = Worker(
        "test", seen.extend, at_end=lambda: seen.append(threading.current_thread().name)
    )
    for i in range(3):
        worker.submit(i)
    assert worker.close(60.0)
    assert seen == [0, 1, 2, "test"]


def test_a_worker_may_be_closed_by_its_own_handler():
    answers = []
    worker = Worker("test", lambda item: answers.append(worker.close(60.0)))
    worker.submit(1)
    worker._thread.join(60.0)
    assert answers == [False]
    assert worker.close(60.0)


def test_when_no_thread_can_be_started_items_are_dropped(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    worker = Worker("test", lambda item: None)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert not worker.submit(1)
    assert worker.submit(2)
    assert worker.close(60.0)


def test_a_limit_below_one_is_refused():
    with pytest.raises(ValueError, match="limit=0"):
        Worker("test", print, limit=0)


def test_a_forked_child_neither_hangs_nor_repeats_anything(run_script, tmp_path):
    done = run_script(
        """
        import os, sys, time, threading
        from gradwatch.util.files.append_file import AppendFile
        from gradwatch.util.worker import Worker

        file = AppendFile(sys.argv[1])
        def slow(items):
            time.sleep(0.01)
            file.append(b"%d\\n" % items[0])
        worker = Worker("test", slow, limit=1000)
        for i in range(20):
            worker.submit(i)
        # The worst time for a fork: another thread is inside the lock.
        inside, leave = threading.Event(), threading.Event()
        def hold():
            with worker._change:
                inside.set()
                leave.wait()
        threading.Thread(target=hold, daemon=True).start()
        inside.wait()
        child = os.fork()
        if child == 0:
            # Who waited for the lock, or for the thread, would wait forever.
            answers = [worker.submit(99), worker.drain(1000.0), worker.close(1000.0), worker.seal()]
            sys.exit(0 if answers == [False, True, True, None] else 1)
        leave.set()
        _, status = os.waitpid(child, 0)
        assert status == 0, status
        assert worker.close(60.0)
        """,
        tmp_path / "log",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "log").read_text().split() == [str(i) for i in range(20)]


def test_a_worker_first_used_in_a_forked_child_works_there(run_script):
    done = run_script(
        """
        import os, sys
        from gradwatch.util.worker import Worker

        seen = []
        worker = Worker("test", seen.extend)
        child = os.fork()
        if child == 0:
            worker.submit(1)
            sys.exit(0 if worker.close(60.0) and seen == [1] else 1)
        _, status = os.waitpid(child, 0)
        assert status == 0, status
        """
    )
    assert (done.returncode, done.stderr) == (0, "")
