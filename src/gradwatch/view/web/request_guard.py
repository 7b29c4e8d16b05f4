"""Checks where a request comes from, and sets the headers of every response."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from gradwatch.view.web.hosts import Hosts, port_of
from gradwatch.view.web.login import Logins

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
"""Of every response. Nothing is cached: it is for one person, and changes."""

TOKEN = "token"
API = "/api/"
_LONGEST = 128 * 1024


class RequestGuard:
    """Passes requests of the person who started the server, and refuses all others.

    Every request must name this server as its `Host`, and come from one of its pages or from
    the address bar. Data needs a login. The page itself holds no data and needs none, so that
    a link to it works wherever it is clicked.
    """

    def __init__(self, app: App, hosts: Hosts, logins: Logins, prefix: str = "") -> None:
        self._app, self._hosts, self._logins, self._prefix = app, hosts, logins, prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = _Headers(scope["headers"])
        if self._prefix and scope["path"].startswith(f"{self._prefix}/"):
            # A proxy may pass the path on as it is, or without the prefix.
            scope = {**scope, "path": scope["path"].removeprefix(self._prefix), "raw_path": None}
        status, reason = self._refusal(scope, headers)
        if status:
            await _refuse(send, status, reason)
            return
        tokens = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if TOKEN in tokens:
            await self._exchange(scope["path"], tokens[TOKEN], _cookie_name(headers), send)
            return
        if scope["path"].startswith(API) and not self._is_logged_in(headers):
            await _refuse(send, 401, "Not logged in. Open the printed link again.")
            return
        await self._app(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope, headers: _Headers) -> tuple[int, str]:
        """The status and the reason if a request is refused; status 0 if it is not."""
        host = headers.only("host")
        if host is None or not self._hosts.allow(host):
            return 403, "This server has another host name."
        if headers.all("origin"):
            origin = headers.only("origin")
            if origin is None or not self._hosts.allow_origin(origin, host):
                return 403, "The request comes from a page of another origin."
        if headers.all("sec-fetch-site") and not _is_own_page(scope["path"], headers):
            return 403, "The request comes from a page of another site."
        if scope["method"] not in ("GET", "HEAD"):
            return 405, "Only GET and HEAD are allowed: nothing can be changed here."
        if len(scope["query_string"]) > _LONGEST:
            return 400, "The request is too long."
        return 0, ""

    def _is_logged_in(self, headers: _Headers) -> bool:
        # Cookies of other servers on this host come along, with values that no parser takes.
        pairs = [pair.partition("=") for line in headers.all("cookie") for pair in line.split(";")]
        return any(
            name.strip() == _cookie_name(headers) and self._logins.knows(value.strip())
            for name, _, value in pairs
        )

    async def _exchange(self, path: str, tokens: list[str], name: str, send: Send) -> None:
        cookie_value = (
            self._logins.exchange(tokens[0]) if len(tokens) == 1 and path == "/" else None
        )
        if cookie_value is None:
            await _refuse(send, 401, "Wrong token. Open the printed link again.")
            return
        path = f"{self._prefix}/"
        cookie = f"{name}={cookie_value}; HttpOnly; SameSite=Strict; Path={path}"
        # Redirect, so that the token is in no history and no screenshot. Relative: a proxy may have
        # another path than it was told.
        await _respond(send, 303, b"", {"location": "./", "set-cookie": cookie})


class _Headers:
    """A request's headers; a header that is given twice has no single value."""

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self._found: dict[str, list[str]] = {}
        for name, value in raw:
            self._found.setdefault(name.decode("latin-1").lower(), []).append(
                value.decode("latin-1")
            )

    def all(self, name: str) -> list[str]:
        return self._found.get(name, [])

    def only(self, name: str) -> str | None:
        found = self.all(name)
        return found[0] if len(found) == 1 else None


def _cookie_name(headers: _Headers) -> str:
    """A cookie belongs to a host with all its ports: two servers, or tunnels, must not share it."""
    return f"gradwatch-{port_of(headers.only('host') or '')}"


def _is_own_page(path: str, headers: _Headers) -> bool:
    """Whether the browser says that the request comes from our page or the address bar.

    A link on another site may lead to the page, but to nothing else.
    """
    if headers.only("sec-fetch-site") in ("same-origin", "none"):
        return True
    is_link = (headers.only("sec-fetch-mode"), headers.only("sec-fetch-dest")) == (
        "navigate",
        "document",
    )
    return is_link and path == "/"


def _with_headers(send: Send) -> Send:
    added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), *added]}
        await send(message)

    return send_with_headers


async def _refuse(send: Send, status: int, reason: str) -> None:
    body = json.dumps({"error": reason}).encode("ascii")
    more = {"allow": "GET, HEAD"} if status == 405 else {}
    await _respond(send, status, body, {"content-type": "application/json", **more})


async def _respond(send: Send, status: int, body: bytes, headers: dict[str, str]) -> None:
    all_headers = {**headers, "content-length": str(len(body))}
    raw = [(name.encode(), value.encode()) for name, value in all_headers.items()]
    with_headers = _with_headers(send)
    await with_headers({"type": "http.response.start", "status": status, "headers": raw})
    await with_headers({"type": "http.response.body", "body": body})
