"""Closes what is open before the process ends, however it ends.

The end of the script, `sys.exit` and an exception all run `atexit`. SIGTERM, which schedulers of
clusters and `kill` send, would end the process at once. While something is open, and the user
has no handler for that signal, it is closed first.
"""

import _thread
import atexit
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

PATIENCE = 1.7
"""How many seconds all closing may take; with what it takes to interrupt it, the end of the
process is delayed by at most 2."""
_AGAIN = 0.02

_closers: list[tuple[int, Callable[[float], object]]] = []
_open = 0
_deadline: float | None = None
_is_closing = _is_coming = False


class _Critical(threading.local):
    """A context for work that holds locks: on the main thread, SIGTERM waits until it has ended.

    A signal handler interrupts the main thread. If that held a lock, closing would wait for it
    until the time is up.
    """

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *exception: object) -> None:
        self.depth -= 1


critical = _Critical()


def register(order: int, close: Callable[[float], object]) -> None:
    """Have `close` called at the end, lower orders first, with its `time.monotonic` deadline."""
    _closers.append((order, close))
    _closers.sort(key=lambda entry: entry[0])


def opened() -> None:
    """Something was opened that SIGTERM must not lose; call `closed` once for each call."""
    global _open
    _open += 1
    _install()


def closed() -> None:
    """Something was closed; after the last, SIGTERM is handled as before."""
    global _open
    _open -= 1
    if _open == 0:
        _restore()


@atexit.register
def close_all() -> None:
    """Call everything registered, within `PATIENCE` seconds."""
    deadline = time.monotonic() + PATIENCE
    for _, close in list(_closers):
        with contextlib.suppress(Exception):  # One that fails must not keep the next from closing.
            close(deadline)


def _on_signal(number: int, frame: FrameType | None) -> None:
    """Close, then end by the signal, as a process without a handler does."""
    global _deadline, _is_closing
    now = time.monotonic()
    _deadline = now + PATIENCE if _deadline is None else _deadline
    if _open > 0 and now < _deadline and not _is_closing:
        if critical.depth:
            _come_again(number)
            return
        _is_closing = True
        # On another thread, with a time limit: whatever it waits for, the process ends.
        done = _thread.allocate_lock()
        done.acquire()
        _thread.start_new_thread(_close_and_release, (done,))
        done.acquire(timeout=_deadline - now)
    _restore()
    os.kill(os.getpid(), number)


def _come_again(number: int) -> None:
    global _is_coming
    if not _is_coming:
        _is_coming = True
        _thread.start_new_thread(_wait_and_signal, (number,))


def _wait_and_signal(number: int) -> None:
    global _is_coming
    time.sleep(_AGAIN)
    _is_coming = False
    os.kill(os.getpid(), number)


def _close_and_release(done: _thread.LockType) -> None:
    try:
        close_all()
    finally:
        done.release()


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _install() -> None:
    if _open > 0 and _is_main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _on_signal)


def _restore() -> None:
    if _is_main_thread() and signal.getsignal(signal.SIGTERM) is _on_signal:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _forget_in_child() -> None:
    """The parent closes what is open: the child ends by the signal at once."""
    global _open, _deadline, _is_closing, _is_coming
    _open, _deadline, _is_closing, _is_coming = 0, None, False, False
    _restore()


if hasattr(os, "register_at_fork"):
    # Already before: Python forgets a signal that a child gets in its first moments, if
    # there is a handler, and the child would live on.
    os.register_at_fork(before=_restore, after_in_parent=_install, after_in_child=_forget_in_child)
