"""The web application: routes, responses, errors."""

from __future__ import annotations

import gzip
import json
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from gradwatch.read import NotRecordedError, QueryError
from gradwatch.util.json_type import Json
from gradwatch.view.data import Answer, StaleTreeError
from gradwatch.view.web.endpoints import Endpoints
from gradwatch.view.web.hosts import Hosts
from gradwatch.view.web.hub import Hub
from gradwatch.view.web.library import CannotOpenError, NoSuchRunError
from gradwatch.view.web.login import Logins
from gradwatch.view.web.query_params import QueryParams
from gradwatch.view.web.request_guard import App, RequestGuard
from gradwatch.view.web.static import Files

if TYPE_CHECKING:
    from starlette.requests import Request

_MIN_GZIP = 1_000


def make_app(
    endpoints: Endpoints, hub: Hub, hosts: Hosts, logins: Logins, files: Files, prefix: str = ""
) -> App:
    """The application behind its guard; `prefix` is the path that a proxy serves it at."""
    from starlette.applications import Starlette
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route

    def failure(status: int, message: str) -> Response:
        return Response(_json({"error": message}), status, media_type="application/json")

    def data(respond: Callable[[QueryParams], Answer | bytes]) -> Callable[[Request], Response]:
        # Not async: each request runs in a thread, so that none waits for another.
        def endpoint(request: Request) -> Response:
            values: dict[str, list[str]] = {}
            for name, value in request.query_params.multi_items():
                values.setdefault(name, []).append(value)
            status, found = respond_to(values, respond, request.url.path)
            if isinstance(found, str):
                return failure(status, found)
            if isinstance(found, bytes):
                return Response(found, media_type="image/png")
            body, headers = _json(found), {"vary": "accept-encoding"}
            accepts_gzip = "gzip" in request.headers.get("accept-encoding", "")
            if accepts_gzip and len(body) > _MIN_GZIP:
                body, headers["content-encoding"] = gzip.compress(body, 1, mtime=0), "gzip"
            return Response(body, headers=headers, media_type="application/json")

        return endpoint

    async def events(request: Request) -> Response:
        if hub.is_full:
            return failure(503, "Too many pages are open: close some.")
        return StreamingResponse(_events(hub), media_type="text/event-stream")

    def file(path: str) -> Callable[[Request], Response]:
        content, media_type = files[path]
        return lambda request: Response(content, media_type=media_type)

    async def not_found(request: Request, error: Exception) -> Response:
        return failure(404, "There is nothing at this path.")

    routes = [Route(path, file(path)) for path in files]
    routes += [Route(f"/api/{name}", data(each)) for name, each in endpoints.by_name.items()]
    routes += [Route("/api/events", events)]
    app = Starlette(routes=routes, exception_handlers={404: not_found})
    app.router.redirect_slashes = False
    return RequestGuard(app, hosts, logins, prefix)


def respond_to(
    values: Mapping[str, Sequence[str]],
    respond: Callable[[QueryParams], Answer | bytes],
    path: str,
) -> tuple[int, Answer | bytes | str]:
    """The status and the response, or the error message; `values` are those of the query."""
    try:
        return 200, respond(QueryParams(values))
    except StaleTreeError as error:
        return 409, str(error)
    except (NoSuchRunError, NotRecordedError) as error:
        return 404, str(error)
    except CannotOpenError as error:
        return 404, f"The run cannot be opened. {error}"
    except QueryError:
        return _internal_error(path)
    except ValueError as error:
        return 400, str(error)
    except Exception:
        return _internal_error(path)


def _internal_error(path: str) -> tuple[int, str]:
    """The traceback goes to the terminal; the client learns nothing about this machine."""
    sys.stderr.write(f"gradwatch: internal error at {path}\n")
    traceback.print_exc(file=sys.stderr)
    return 500, "Internal error; see the server's terminal."


async def _events(hub: Hub) -> AsyncIterator[bytes]:
    async for change in hub.listen():
        yield b": heartbeat\n\n" if change is None else b"data: " + _json(change) + b"\n\n"


def _json(value: Json) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")
