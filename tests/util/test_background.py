"""Things done later, one after the other."""

from __future__ import annotations

import threading
import time

from gradwatch.util.background import Background


def soon():
    return time.monotonic() + 60


def test_calls_are_made_in_the_order_of_their_times():
    done, background = [], Background("test")
    hold = threading.Event()
    background.later("hold", 0.0, lambda: hold.wait(60))
    background.later("b", 3000.0, lambda: done.append("b"))
    background.later("a", 60.0, lambda: done.append("a"))
    hold.set()
    assert background.finish(soon())
    assert done == ["a", "b"]


def test_a_later_call_of_the_same_key_takes_the_place_of_the_first():
    done, background = [], Background("test")
    background.later("key", 60.0, lambda: done.append(1))
    background.later("key", 60.0, lambda: done.append(2))
    assert background.finish(soon())
    assert done == [2]


def test_without_anybody_waiting_a_call_is_made_in_time():
    done = threading.Event()
    Background("test").later("key", 0.01, done.set)
    assert done.wait(60)


def test_a_call_that_fails_is_logged_once_and_the_next_is_made(caplog):
    done, background = [], Background("gradwatch-test")

    def fails():
        raise OSError("full")

    for number in range(3):
        background.later(number, 0.0, fails)
    background.later("good", 0.0, lambda: done.append(True))
    assert background.finish(soon())
    assert done == [True]
    assert [record.message for record in caplog.records] == ["gradwatch-test: OSError: full"]


def test_finish_does_not_wait_longer_than_it_may():
    hold, background = threading.Event(), Background("test")
    background.later("hold", 0.0, lambda: hold.wait(60))
    background.later("never", 0.0, lambda: None)
    assert not background.finish(time.monotonic() + 0.01)
    background.stop()
    hold.set()
    assert background.finish(soon())


def test_what_asks_to_be_tried_again_later_is_not_hurried_without_end():
    tries, background = [], Background("test")

    def again():
        tries.append(True)
        background.later("again", 60.0, again)

    background.later("again", 60.0, again)
    assert background.finish(soon())
    assert len(tries) == 1


def test_a_forked_child_begins_anew(run_script):
    code = """
        import os, sys, threading, time
        from gradwatch.util.background import Background
        background = Background("test")
        hold = threading.Event()
        background.later("hold", 0.0, hold.wait)
        background.later("parent", 0.0, lambda: os.write(1, b"parent"))
        time.sleep(0.1)
        child = os.fork()
        if child == 0:
            assert background.finish(time.monotonic() + 60)
            background.later("child", 60.0, lambda: os.write(1, b"child "))
            assert background.finish(time.monotonic() + 60)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        hold.set()
        assert background.finish(time.monotonic() + 60)
    """
    done = run_script(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "child parent"
