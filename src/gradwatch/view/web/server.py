"""The server: its socket, its threads, and its end."""

import errno
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property

import gradwatch
from gradwatch.read import Run, Runs
from gradwatch.view.data import Answer
from gradwatch.view.web import static
from gradwatch.view.web.app import make_app, respond_to
from gradwatch.view.web.background_diagnosis import BackgroundDiagnosis
from gradwatch.view.web.change_poller import ChangePoller
from gradwatch.view.web.endpoints import Endpoints
from gradwatch.view.web.entry_cache import EntryCache
from gradwatch.view.web.hosts import Hosts, url_host
from gradwatch.view.web.hub import Hub
from gradwatch.view.web.library import Library
from gradwatch.view.web.login import Logins
from gradwatch.view.web.request_guard import TOKEN, App

PORT = 6007
_MAX_TRIES = 64


class PortTakenError(OSError):
    """The port is used by another program."""


@dataclass
class Server:
    """A viewer of runs; `directory` is as the user gave it, and port 0 is any free port.

    `prefix` is the path at which a proxy serves it, such as `/user/me/gradwatch`; `token` that of
    the link, a random one by default. `diagnoses_live` is that of `BackgroundDiagnosis`.
    """

    found: Run | Runs
    directory: str
    host: str = "127.0.0.1"
    port: int = 0
    rank: int | None = None
    prefix: str = ""
    token: str | None = None
    diagnoses_live: bool = True

    def __post_init__(self) -> None:
        self.hub, self.logins = Hub(), Logins(self.token)
        self.diagnosis = BackgroundDiagnosis(self._on_findings, self.diagnoses_live)
        found = self.found
        is_local = isinstance(found, Runs) and not hasattr(found, "url")
        cache = EntryCache(found.path, gradwatch.__version__) if is_local else None
        self.library = Library(found, self.directory, self.diagnosis, self.rank, cache)
        self.poller = ChangePoller(self.library, self.hub)
        self._stop: Callable[[], None] = lambda: None

    @cached_property
    def endpoints(self) -> Endpoints:
        version = gradwatch.__version__
        return Endpoints(self.library, self.diagnosis, version, self.poller.wake)

    def answer(
        self, name: str, values: Mapping[str, Sequence[str]]
    ) -> tuple[int, Answer | bytes | str]:
        """The status and the answer to a query, or an error message, for a server of another."""
        respond = self.endpoints.by_name.get(name)
        if respond is None:
            return 404, "There is nothing at this path."
        return respond_to(values, respond, name)

    @property
    def address(self) -> str:
        """Its URL, without the token."""
        return f"http://{url_host(_public_host(self.host))}:{self.port}{self.prefix}/"

    @property
    def link(self) -> str:
        """Its URL with the token, for the person who started it."""
        return f"{self.address}?{TOKEN}={self.logins.token}"

    def app(self, files: static.Files | None = None) -> App:
        """The application for its port, which `listen` sets.

        Without `files`, it has those of the package; NotBuiltError if the front end is not built.
        """
        hosts = Hosts(self.host, self.port)
        return make_app(
            self.endpoints, self.hub, hosts, self.logins, files or static.load(), self.prefix
        )

    def listen(self, *, next_free: bool = False) -> socket.socket:
        """Bind the port, or with `next_free` one of the next ports.

        PortTakenError is raised if none is free, OSError if the host is not this machine's.
        """
        bound = listening(self.host, self.port, _MAX_TRIES if next_free else 1)
        self.port = bound.getsockname()[1]
        return bound

    def run(self, bound: socket.socket, files: static.Files | None = None) -> None:
        """Serve until Ctrl-C; `files` as in `app`."""
        import uvicorn

        from gradwatch.view.web.http_protocol import HttpProtocol

        config = uvicorn.Config(
            self.app(files),
            http=HttpProtocol,
            ws="none",
            lifespan="off",
            # The access log has whole URLs, one of them with the token.
            access_log=False,
            log_config=None,
            log_level="critical",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
            timeout_keep_alive=60,
        )
        hub = self.hub

        class Serving(uvicorn.Server):
            async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
                hub.close()  # else it would wait for the listeners
                await super().shutdown(sockets)

        serving = Serving(config)
        self._stop = lambda: setattr(serving, "should_exit", True)
        self.poller.start()
        self.poller.wake()
        try:
            with suppress(KeyboardInterrupt), _ended_by_signals():
                serving.run(sockets=[bound])
        finally:
            self.close()

    def stop(self) -> None:
        """End `run`, from another thread."""
        self._stop()

    def close(self) -> None:
        self.hub.close()
        self.poller.close()
        self.diagnosis.close()
        self.library.close()

    def _on_findings(self, id: str) -> None:
        self.poller.update_entry(id)
        self.hub.publish(runs=[id])


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM ends the server as Ctrl-C does, with cleanup."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def listening(host: str, port: int, tries: int) -> socket.socket:
    """A socket that listens at a port, or at one of the next ports."""
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


def _public_host(host: str) -> str:
    """The name of a server that listens on all interfaces."""
    return {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
