"""Ends the process while a thread is inside a library that nothing can interrupt.

XLA compiles for seconds or minutes, and on a busy machine DuckDB does not stop at once. If the
process ends in the meantime, the libraries are torn down under that thread, and the process dies of
a segmentation fault; or Python ends the thread inside of C++, which aborts. Where the C library
allows it, the process is left as soon as Python has ended, with its exit status and all files
flushed, and without the destructors of libraries. Elsewhere the end of the process waits for the
thread.
"""

import atexit
import ctypes
import sys
import threading
from collections.abc import Callable
from typing import Any

_threads: set[threading.Thread] = set()


def start(work: Callable[[], object], name: str) -> threading.Thread:
    """Run this on a daemon thread that the end of the process neither waits for nor crashes on."""

    def run() -> None:
        try:
            work()
        finally:
            _threads.discard(thread)

    thread = threading.Thread(target=run, name=name, daemon=True)
    _threads.add(thread)
    try:
        thread.start()
    except RuntimeError:  # no more threads, or the interpreter is shutting down
        _threads.discard(thread)
        raise
    return thread


@atexit.register
def _leave() -> None:
    running = [thread for thread in list(_threads) if thread.is_alive()]
    if running and not skip_destructors():
        for thread in running:
            thread.join()


def skip_destructors() -> bool:
    """Leave the process as soon as Python has ended; whether that is possible on this system."""
    try:
        _skip_destructors()
    except Exception:
        return False
    return True


def _skip_destructors() -> None:
    if not sys.platform.startswith("linux"):
        raise OSError("only for the C library of Linux")
    libc, cpp = ctypes.CDLL(None), ctypes.CDLL("libstdc++.so.6")
    set_terminate, on_exit = cpp._ZSt13set_terminatePFvvE, libc.on_exit
    call_at_exit = getattr(libc, "__cxa_atexit")
    for each, arguments in ((set_terminate, 1), (on_exit, 2), (call_at_exit, 3)):
        each.argtypes, each.restype = [ctypes.c_void_p] * arguments, ctypes.c_void_p
    # Before Python 3.14, a thread that wants the interpreter after its end is unwound, and C++
    # calls this handler. Functions of C: there is no interpreter to run one of Python.
    set_terminate(_address(libc.pause))
    # The last that is registered is called first: all files are flushed, then `_exit(status)`.
    on_exit(_address(libc._exit), None)
    call_at_exit(_address(libc.fflush), None, None)


def _address(function: Any) -> int | None:
    return ctypes.cast(function, ctypes.c_void_p).value
