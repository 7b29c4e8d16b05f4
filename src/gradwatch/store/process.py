"""Which process wrote something, and whether it still runs."""

import os
import socket
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from gradwatch.util import Json

_LARGEST_PID = (1 << 31) - 1


def describe() -> dict[str, Json]:
    """This process: `host`, `pid` and `process_start`, which differs if a pid is used again."""
    pid = os.getpid()
    return {"host": _host(), "pid": pid, "process_start": start_of(pid)}


def is_running(facts: Mapping[str, Json]) -> bool | None:
    """Whether the process that described itself so still runs; None if that cannot be known."""
    if facts.get("host") != _host():
        return None
    pid, start = facts.get("pid"), facts.get("process_start")
    if not isinstance(pid, int) or not 0 < pid <= _LARGEST_PID:
        return None
    if start is not None and Path("/proc/self/stat").exists():
        return bool(start_of(pid) == start)
    if os.name != "posix":
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def start_of(pid: int) -> int | None:
    """When a process started, in ticks since the machine did; None where that is not known."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace")
        # The second field is the program's name in parentheses, which may hold anything.
        fields = text.rpartition(")")[2].split()
        return None if fields[0] == "Z" else int(fields[19])
    except (OSError, IndexError, ValueError):
        return None


@cache
def _host() -> str:
    # Two machines may share a name, and a machine restarts: pids then mean nothing.
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()[:8]
    except (OSError, ValueError):
        boot = ""
    return f"{socket.gethostname()} {boot}".strip()
