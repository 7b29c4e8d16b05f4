"""The server: its socket, its threads, and how it ends."""

from __future__ import annotations

import errno
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import gradwatch
from gradwatch.read import Run, Runs
from gradwatch.view.web import app, static
from gradwatch.view.web.answers import Answers
from gradwatch.view.web.diagnoses import Diagnoses
from gradwatch.view.web.guard import TOKEN, App
from gradwatch.view.web.hosts import Hosts, shown
from gradwatch.view.web.hub import Hub
from gradwatch.view.web.library import Library
from gradwatch.view.web.session import Sessions
from gradwatch.view.web.watcher import Watcher

PORT = 6007
_TRIED = 64
_LONGEST_REQUEST = 256 * 1024


class PortTakenError(OSError):
    """The port that was asked for is another's."""


@dataclass
class Server:
    """A viewer of runs, ready to be run.

    Args:
        found: a run, or runs.
        given: the directory as the user gave it.
        host, port: where to listen; port 0 is any that is free.
        rank: of parallel trainings the process to show.
    """

    found: Run | Runs
    given: str
    host: str = "127.0.0.1"
    port: int = 0
    rank: int | None = None

    def __post_init__(self) -> None:
        self.hub, self.sessions = Hub(), Sessions()
        self.diagnoses = Diagnoses(self._more_is_known)
        self.library = Library(self.found, self.given, self.diagnoses, self.rank)
        self.watcher = Watcher(self.library, self.hub)
        self._stop: Callable[[], None] = lambda: None

    @property
    def address(self) -> str:
        """Its URL, without the token."""
        return f"http://{shown(_named(self.host))}:{self.port}/"

    @property
    def link(self) -> str:
        """Its URL with the token, for the person who started it."""
        return f"{self.address}?{TOKEN}={self.sessions.token}"

    def app(self, files: static.Files | None = None) -> App:
        """The application for its port, which must be known.

        Args:
            files: the page's own files; by default those of the package.

        Raises:
            NotBuiltError: the front end is not there.
        """
        answers = Answers(self.library, self.diagnoses, gradwatch.__version__, self.watcher.wake)
        hosts = Hosts(self.host, self.port)
        return app.make(answers, self.hub, hosts, self.sessions, files or static.load())

    def listen(self, *, next_free: bool = False) -> socket.socket:
        """Take the port.

        Args:
            next_free: if it is taken, one of the next.

        Raises:
            PortTakenError: it is taken.
            OSError: the host is not this machine's.
        """
        taken = listening(self.host, self.port, _TRIED if next_free else 1)
        self.port = taken.getsockname()[1]
        return taken

    def run(self, taken: socket.socket, files: static.Files | None = None) -> None:
        """Serve until Ctrl-C; `files` as in `app`."""
        import uvicorn

        config = uvicorn.Config(
            self.app(files),
            http="h11",
            ws="none",
            lifespan="off",
            # Its access log has whole URLs, of which one has the token.
            access_log=False,
            log_config=None,
            log_level="critical",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
            timeout_keep_alive=60,
            h11_max_incomplete_event_size=_LONGEST_REQUEST,
        )
        hub = self.hub

        class Serving(uvicorn.Server):
            async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
                hub.close()  # or it would wait for those who listen
                await super().shutdown(sockets)

        serving = Serving(config)
        self._stop = lambda: setattr(serving, "should_exit", True)
        self.watcher.start()
        self.watcher.wake()
        try:
            with suppress(KeyboardInterrupt), _ended_by_signals():
                serving.run(sockets=[taken])
        finally:
            self.close()

    def stop(self) -> None:
        """Have `run` return, from another thread."""
        self._stop()

    def close(self) -> None:
        """Let go of all."""
        self.hub.close()
        self.watcher.close()
        self.diagnoses.close()
        self.library.close()

    def _more_is_known(self, id: str) -> None:
        self.watcher.enter_again(id)
        self.hub.tell(runs=[id])


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM ends the server as Ctrl-C does: what it has begun is cleaned up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def listening(host: str, port: int, tries: int) -> socket.socket:
    """A socket that listens at a port, or at one of the next."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in range(port, port + tries) if port else [0]:
        made = socket.socket(family)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((host, number))
            made.listen(128)
        except OSError as error:
            made.close()
            if not _is_taken(error):
                raise
        else:
            return made
    last = f" to {port + tries - 1}" if tries > 1 else ""
    raise PortTakenError(
        f"Port {port}{last} is taken. Choose another with --port, or --port 0 for any."
    )


def _is_taken(error: OSError) -> bool:
    return error.errno in (errno.EADDRINUSE, errno.EACCES)


def _named(host: str) -> str:
    """Where a server that listens everywhere can be reached."""
    return {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
