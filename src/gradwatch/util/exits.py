"""What is to be done before the process ends, however it ends.

The end of the script, `sys.exit` and an exception all come by `atexit`. SIGTERM, as
it is sent by schedulers of clusters and by `kill`, would end the process at once; while
something is open, and nobody else handles that signal, it is first closed.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

PATIENCE = 1.7
"""How many seconds all closing may take; with what it takes to interrupt it, the end of the
process is delayed by at most 2."""
_AGAIN = 0.02
_PLACES = tuple(str(Path(__file__).parents[1] / name) for name in ("sinks", "store", "util"))

_closers: list[tuple[int, Callable[[float], object]]] = []
_open = 0
_deadline: float | None = None
_is_closing = _is_coming = False


def register(order: int, close: Callable[[float], object]) -> None:
    """Have `close` called at the end.

    Args:
        order: those of lower numbers are called first.
        close: it gets the time, of `time.monotonic`, by which it must return.
    """
    _closers.append((order, close))
    _closers.sort(key=lambda entry: entry[0])


def opened() -> None:
    """Something is open that SIGTERM must not lose; call `closed` as often as this."""
    global _open
    _open += 1
    _install()


def closed() -> None:
    """What was open is closed; after the last, SIGTERM is as it was."""
    global _open
    _open -= 1
    if _open == 0:
        _restore()


@atexit.register
def close_all() -> None:
    """Call all that is registered, within `PATIENCE` seconds."""
    deadline = time.monotonic() + PATIENCE
    for _, close in list(_closers):
        with contextlib.suppress(Exception):  # One that fails must not keep the next from closing.
            close(deadline)


def _on_signal(number: int, frame: FrameType | None) -> None:
    """Close, then end by the signal as if nobody had handled it."""
    global _deadline, _is_closing
    now = time.monotonic()
    _deadline = now + PATIENCE if _deadline is None else _deadline
    if _open > 0 and now < _deadline and not _is_closing:
        if _is_ours(frame):
            # The training thread was at work in here and may hold a lock, for which closing
            # would wait forever. So let it go on, and come again.
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


def _is_ours(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith(_PLACES):
            return True
        frame = frame.f_back
    return False


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _install() -> None:
    if _open > 0 and _is_main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _on_signal)


def _restore() -> None:
    if _is_main_thread() and signal.getsignal(signal.SIGTERM) is _on_signal:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _forget_in_child() -> None:
    """What is open is the parent's: the child ends by the signal at once."""
    global _open, _deadline, _is_closing, _is_coming
    _open, _deadline, _is_closing, _is_coming = 0, None, False, False
    _restore()


if hasattr(os, "register_at_fork"):
    # Already before: Python forgets a signal that a child gets in its first moments, if
    # there is a handler, and the child would live on.
    os.register_at_fork(before=_restore, after_in_parent=_install, after_in_child=_forget_in_child)
