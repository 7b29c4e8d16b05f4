"""Importing DuckDB safely, and locking a database down."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

HELD_AT_MOST = 10.0
"""Seconds that a fork waits for the import."""

_lock = threading.RLock()
_held: list[bool] = []


def duckdb() -> ModuleType:
    """The module, imported while the process does not fork.

    A child that is forked during the import has half of the extension, whose clean-up at
    the child's end kills the process (SIGSEGV). So a fork waits until the import is
    done: a tenth of a second, once in a process.
    """
    with _lock:
        import duckdb

        return duckdb


def lock_down(connection: DuckDBPyConnection, files: Iterable[Path]) -> None:
    """Let a connection reach these files: no other one, no network, extension, secret, variable."""
    for setting in (
        "temp_directory = ''",
        "autoinstall_known_extensions = false",
        "autoload_known_extensions = false",
        "python_enable_replacements = false",
        "allow_persistent_secrets = false",
        f"allowed_paths = [{', '.join(literal(str(file)) for file in files)}]",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        connection.execute(f"SET {setting}")


def literal(text: str) -> str:
    """A string in SQL."""
    return "'" + text.replace("'", "''") + "'"


def quoted(name: str) -> str:
    """The name of a column in SQL."""
    return '"' + name.replace('"', '""') + '"'


def _before_fork() -> None:
    _held.append(_lock.acquire(timeout=HELD_AT_MOST))


def _after_fork() -> None:
    if _held and _held.pop():
        _lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )
