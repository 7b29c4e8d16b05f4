"""A real server of runs, in a thread of its own."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import gradwatch
from gradwatch.read import Runs, is_run
from gradwatch.view.web.login import Logins
from gradwatch.view.web.server import PortTakenError, Server, listening
from gradwatch.view.web.static import Files

PATIENCE = 600.0
"""Seconds that anything is waited for on a machine that is busy otherwise."""


def port_for_twice() -> int:
    """A free port that stays so: nobody is given it who does not ask for it by its number."""
    given = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(given.read_text().split()[0]) if given.exists() else 49_152
    for port in random.sample(range(10_000, max(first, 20_000)), 1000):
        with suppress(PortTakenError):
            listening("127.0.0.1", port, 1).close()
            return port
    raise AssertionError("no port is free")


@contextmanager
def serving(
    place: Path, files: Files | None = None, *, port: int = 0, logins: Logins | None = None
) -> Iterator[Server]:
    """A server at a real port, until it is done with.

    Args:
        place: where the runs are.
        files: of the page; by default those of the front end, which must be built.
        port: by default any that is free.
        logins: those of a server before it.
    """
    found = gradwatch.open(place) if is_run(place) else Runs(place)
    server = Server(found, "runs", port=port)
    server.logins = logins or server.logins
    taken = server.listen()
    given = (taken,) if files is None else (taken, files)
    thread = threading.Thread(target=server.run, args=given, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()
