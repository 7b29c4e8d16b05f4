"""The viewer as a tab of TensorBoard.

TensorBoard imports this module whenever it starts, by the entry point `tensorboard_plugins`: what
the tab needs is imported when it is opened, and no error of ours keeps TensorBoard from starting.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from tensorboard.plugins import base_plugin

if TYPE_CHECKING:
    from gradwatch.view.web import Server

Headers = list[tuple[str, str]]
App = Callable[[dict[str, Any], Callable[[str, Headers], Any]], Iterable[bytes]]

_LOOK_EVERY = 5.0
_JSON = "application/json"
# The page is in a frame of its own: TensorBoard's has another base address.
_SCRIPT = b"""\
export function render() {
  const frame = document.createElement("iframe");
  frame.src = "page.html";
  frame.title = "gradwatch";
  frame.style.cssText = "position:fixed;inset:0;width:100%;height:100%;border:0";
  document.body.style.margin = "0";
  document.body.append(frame);
}
"""
_STATUSES = {
    200: "200 OK",
    400: "400 Bad Request",
    404: "404 Not Found",
    409: "409 Conflict",
    500: "500 Internal Server Error",
    503: "503 Service Unavailable",
}


class GradwatchPlugin(base_plugin.TBPlugin):  # type: ignore[misc]
    """Shows the runs below `--logdir`. It is guarded as the rest of TensorBoard is."""

    plugin_name = "gradwatch"

    def __init__(self, context: base_plugin.TBContext) -> None:
        self._logdir: str = context.logdir or ""
        self._lock = threading.Lock()
        self._server: Server | None = None
        self._looked, self._has_runs = float("-inf"), False

    def is_active(self) -> bool:
        """Whether there are runs; a second look is taken after some seconds only."""
        if time.monotonic() - self._looked > _LOOK_EVERY:
            try:
                self._has_runs = self._has_runs or _has_runs(Path(self._logdir))
            except Exception:
                self._has_runs = False
            self._looked = time.monotonic()
        return self._has_runs

    def frontend_metadata(self) -> base_plugin.FrontendMetadata:
        return base_plugin.FrontendMetadata(
            es_module_path="/index.js", tab_name="gradwatch", disable_reload=True
        )

    def get_plugin_apps(self) -> dict[str, App]:
        """The page's files, and what the viewer's server answers."""
        from gradwatch.view.web import NotBuiltError, load

        script = "text/javascript; charset=utf-8"
        try:
            files = load()
        except NotBuiltError as error:
            said = f"export const render = () => document.body.append({json.dumps(str(error))});"
            return {"/index.js": _file(said.encode(), script)}
        apps = {path: _file(*files[path]) for path in ("/app.js", "/app.css")}
        apps |= {"/index.js": _file(_SCRIPT, script), "/page.html": _file(*files["/"])}
        return {**apps, "/api/*": self._answer}

    def _opened(self) -> Server:
        from gradwatch.read import Run, Runs, is_run
        from gradwatch.view.web import Server

        with self._lock:
            if self._server is None:
                place = Path(self._logdir)
                found = Run(place) if is_run(place) else Runs(place)
                self._server = Server(found, self._logdir)
                self._server.poller.start()
            return self._server

    def _answer(
        self, environ: dict[str, Any], start_response: Callable[[str, Headers], Any]
    ) -> Iterable[bytes]:
        name = environ["PATH_INFO"].rpartition("/")[2]
        server = self._opened()
        if name == "events" and not server.hub.is_full:
            start_response(_STATUSES[200], _headers("text/event-stream"))
            return _events(server)
        values = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
        status, found = server.answer(name, values)
        if isinstance(found, bytes):
            start_response(_STATUSES[status], _headers("image/png"))
            return [found]
        body, headers = _encoded({"error": found} if isinstance(found, str) else found), []
        if "gzip" in environ.get("HTTP_ACCEPT_ENCODING", ""):
            body, headers = gzip.compress(body, 1), [("Content-Encoding", "gzip")]
        start_response(_STATUSES[status], [*_headers(_JSON), *headers])
        return [body]


def _has_runs(place: Path) -> bool:
    from gradwatch.read import Runs, is_run

    return place.is_dir() and (is_run(place) or bool(Runs(place).names))


def _file(content: bytes, media_type: str) -> App:
    def app(environ: dict[str, Any], start_response: Callable[[str, Headers], Any]) -> list[bytes]:
        start_response(_STATUSES[200], _headers(media_type))
        return [content]

    return app


def _headers(media_type: str) -> Headers:
    """Those of the viewer's server, but the page may be in a frame of TensorBoard's."""
    from gradwatch.view.web import HEADERS

    ours = HEADERS | {
        "content-type": media_type,
        "content-security-policy": HEADERS["content-security-policy"].replace(
            "frame-ancestors 'none'", "frame-ancestors 'self'"
        ),
        "x-frame-options": "SAMEORIGIN",
    }
    return list(ours.items())


def _encoded(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")


def _events(server: Server) -> Iterator[bytes]:
    """Server-sent events, on a thread of TensorBoard's, as long as the page is open."""
    loop = asyncio.new_event_loop()
    changes = server.hub.listen()
    try:
        while True:
            change = loop.run_until_complete(anext(changes))
            yield b": heartbeat\n\n" if change is None else b"data: " + _encoded(change) + b"\n\n"
    except StopAsyncIteration:
        return
    finally:
        loop.run_until_complete(changes.aclose())  # type: ignore[attr-defined]
        loop.close()
