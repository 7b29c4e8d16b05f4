"""A server of runs, asked without a network or by a real socket."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from urllib.parse import urlencode

import gradwatch
from gradwatch.view.web.server import Server
from tests.view import serving as serving_

FILES = {
    "/": (b"<!doctype html>the page", "text/html; charset=utf-8"),
    "/index.html": (b"<!doctype html>the page", "text/html; charset=utf-8"),
    "/app.js": (b"the script", "text/javascript; charset=utf-8"),
    "/app.css": (b"the style", "text/css; charset=utf-8"),
}
HOST = "127.0.0.1:6007"


class Answered:
    """What was answered."""

    def __init__(self, messages: list[dict[str, Any]]) -> None:
        start = messages[0]
        self.status: int = start["status"]
        self.raw_headers = [(k.decode(), v.decode()) for k, v in start["headers"]]
        self.headers = dict(self.raw_headers)
        self.body = b"".join(m.get("body", b"") for m in messages[1:])

    @property
    def json(self) -> Any:
        def refuse(word: str) -> Any:
            raise AssertionError(f"{word} is no JSON")

        return json.loads(self.body, parse_constant=refuse)


class Asking:
    """Asks an application as a server would: nothing on the way tidies a request up."""

    def __init__(self, place: Any, rank: int | None = None) -> None:
        self.server = Server(gradwatch.open(place), "runs", port=6007, rank=rank)
        self.app = self.server.app(FILES)
        answered = self.ask("/", f"token={self.server.logins.token}")
        assert answered.status == 303
        self.cookie = answered.headers["set-cookie"].partition(";")[0]

    def ask(
        self,
        path: str,
        query: str = "",
        headers: list[tuple[str, str]] | None = None,
        method: str = "GET",
        host: str | None = HOST,
        kind: str = "http",
    ) -> Answered:
        """One request; without a session, unless it has the cookie."""
        given = [("host", host)] * (host is not None) + (headers or [])
        scope = {
            "type": kind,
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode("utf-8", "surrogatepass"),
            "query_string": query.encode("latin-1", "replace"),
            "root_path": "",
            "headers": [(k.lower().encode(), v.encode("latin-1", "replace")) for k, v in given],
            "server": ("127.0.0.1", 6007),
            "client": ("127.0.0.1", 1),
        }
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(dict(message))

        asyncio.run(self.app(scope, receive, send))
        return Answered(sent) if kind == "http" else sent  # type: ignore[return-value]

    def api(self, name: str, **parameters: Any) -> Answered:
        """A request of the page's own, with its session."""
        return self.ask(f"/api/{name}", urlencode(parameters), [("cookie", self.cookie)])

    def get(self, name: str, **parameters: Any) -> Any:
        """Its answer."""
        answered = self.api(name, **parameters)
        assert answered.status == 200, answered.body
        return answered.json

    @property
    def ids(self) -> list[str]:
        return list(self.server.library.names)

    def close(self) -> None:
        self.server.hub.close()
        self.server.diagnosis.close()
        self.server.library.close()


@contextmanager
def asking(place: Any, **options: Any):
    """Somebody to ask about runs."""
    asker = Asking(place, **options)
    try:
        yield asker
    finally:
        asker.close()


def serving(place: Any) -> AbstractContextManager[Server]:
    """A server at a real port, with a page of no matter what."""
    return serving_.serving(place, FILES)


def wait_for(what: Any, seconds: float = serving_.PATIENCE) -> Any:
    """What a function returns as soon as that is something."""
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
    return found
