"""Which programs of a train function are compiled, and when they are there."""

import threading

import pytest

from gradwatch.capture.keras.ahead import compiled_ahead
from gradwatch.capture.keras.ahead.compiled_ahead import CompiledAhead


class Frame:
    """A framework whose functions take so many seconds to trace, in its own time."""

    way = "jax"

    def __init__(self, seconds, compile_it=lambda: None):
        self.now = self.seconds = 0.0
        self.traced = []
        self._seconds = seconds
        self._compile_it = compile_it

    def kind_of(self, args):
        return args

    def trace(self, function, args):
        self.now += self._seconds
        self.traced.append(args)
        return self._compile_it

    def ahead(self, waits=True):
        return CompiledAhead(self, lambda: self.now, lambda: self.now, waits)


def test_what_is_traced_fast_is_called_at_once():
    frame = Frame(0.1, compile_it=pytest.fail)
    ahead = frame.ahead()
    assert ahead.is_ready(None, "a")
    assert not ahead.is_awaited


def test_what_is_traced_fast_is_compiled_on_a_thread_where_training_does_not_wait():
    may_end = threading.Event()
    ahead = Frame(0.1, may_end.wait).ahead(waits=False)
    assert not ahead.is_ready(None, "a")
    may_end.set()
    ahead.wait()
    assert ahead.is_ready(None, "a")


def test_what_was_traced_before_counts_as_time_of_tracing():
    may_end = threading.Event()
    frame = Frame(0.1, may_end.wait)
    frame.seconds = 3.0
    ahead = frame.ahead()
    assert not ahead.is_ready(None, "a")
    assert ahead.tracing == pytest.approx(3.1)
    assert frame.seconds == 0.0
    may_end.set()
    ahead.wait()


def test_what_is_traced_slowly_is_there_when_its_thread_has_ended():
    may_end = threading.Event()
    ahead = Frame(3.0, may_end.wait).ahead()
    assert not ahead.is_ready(None, "a")
    assert ahead.is_awaited
    may_end.set()
    ahead.wait()
    assert ahead.is_ready(None, "a")
    assert not ahead.is_awaited
    assert ahead.take_seconds() >= 3.0
    assert ahead.take_seconds() is None


def test_what_can_only_be_compiled_by_a_call_is_called():
    assert Frame(3.0, compile_it=None).ahead().is_ready(None, "a")


def test_a_failure_is_raised_once_and_nothing_is_called():
    may_fail = threading.Event()

    def fail():
        may_fail.wait()
        raise MemoryError

    ahead = Frame(3.0, fail).ahead()
    assert not ahead.is_ready(None, "a")
    may_fail.set()
    ahead.wait()
    with pytest.raises(RuntimeError, match="could not be compiled"):
        ahead.is_ready(None, "a")
    assert not ahead.is_ready(None, "a")


def test_tracing_for_further_kinds_of_batches_is_a_small_part_of_the_time():
    frame = Frame(1.0)
    ahead = frame.ahead()
    for step in range(100):
        ahead.is_ready(None, step)
        frame.now += 1.0
    assert 2 <= len(frame.traced) <= 100 * compiled_ahead.SHARE + 2
    ahead.wait()
