"""Importing DuckDB beside other threads."""

from __future__ import annotations

import os
import threading
from types import ModuleType

HELD_AT_MOST = 10.0
"""Seconds that a fork waits for the import."""

_lock = threading.RLock()
_held: list[bool] = []


def duckdb() -> ModuleType:
    """The module, imported while nobody forks.

    A child forked from the midst of the import would have half of the extension, whose
    clean-up at the child's end then takes down the process (SIGSEGV). So a fork that
    comes meanwhile waits for it, a tenth of a second, once in a process.
    """
    with _lock:
        import duckdb

        return duckdb


def _before_fork() -> None:
    _held.append(_lock.acquire(timeout=HELD_AT_MOST))


def _after_fork() -> None:
    if _held and _held.pop():
        _lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )
