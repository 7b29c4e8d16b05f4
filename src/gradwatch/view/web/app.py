"""The application: requests to answers, faults to words."""

from __future__ import annotations

import gzip
import json
import sys
import traceback
from collections.abc import AsyncIterator, Callable
from typing import Any

from gradwatch.read import NotRecordedError, QueryError
from gradwatch.view.data import StaleTreeError
from gradwatch.view.web.answers import Answers
from gradwatch.view.web.asked import Asked
from gradwatch.view.web.guard import App, Guard
from gradwatch.view.web.hosts import Hosts
from gradwatch.view.web.hub import Hub
from gradwatch.view.web.library import CannotOpenError, NoSuchRunError
from gradwatch.view.web.session import Sessions
from gradwatch.view.web.static import Files

_WORTH_PACKING = 1_000


def make(
    answers: Answers,
    hub: Hub,
    hosts: Hosts,
    sessions: Sessions,
    files: Files,
) -> App:
    """The application, behind its guard.

    Args:
        answers: what data is answered with.
        hub: who tells of changes.
        hosts: the server's names.
        sessions: who may ask for data.
        files: by path, the bytes and type of the page's own files.
    """
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route

    def failure(status: int, words: str) -> Response:
        return Response(_json({"error": words}), status, media_type="application/json")

    def answered(answer: Callable[[Asked], Any]) -> Callable[[Request], Response]:
        # Not async: each is answered in a thread, so that none waits for another.
        def endpoint(request: Request) -> Response:
            status, found = _try(request, answer)
            if status != 200:
                return failure(status, found)
            if isinstance(found, bytes):
                return Response(found, media_type="image/png")
            body, headers = _json(found), {"vary": "accept-encoding"}
            packs = "gzip" in request.headers.get("accept-encoding", "")
            if packs and len(body) > _WORTH_PACKING:
                body, headers["content-encoding"] = gzip.compress(body, 1, mtime=0), "gzip"
            return Response(body, headers=headers, media_type="application/json")

        return endpoint

    async def events(request: Request) -> Response:
        if hub.is_full:
            return failure(503, "Too many pages listen already: close some.")
        return StreamingResponse(_events(hub), media_type="text/event-stream")

    def file(path: str) -> Callable[[Request], Response]:
        content, media_type = files[path]

        def endpoint(request: Request) -> Response:
            return Response(content, media_type=media_type)

        return endpoint

    async def nothing(request: Request, error: Exception) -> Response:
        return failure(404, "There is nothing of that name.")

    routes = [Route(path, file(path)) for path in files]
    routes += [Route(f"/api/{name}", answered(each)) for name, each in answers.by_name.items()]
    routes += [Route("/api/picture", answered(answers.picture)), Route("/api/events", events)]
    app = Starlette(routes=routes, exception_handlers={404: nothing})
    app.router.redirect_slashes = False
    return Guard(app, hosts, sessions)


def _try(request: Any, answer: Callable[[Asked], Any]) -> tuple[int, Any]:
    """The status and the answer, or what is wrong."""
    given: dict[str, list[str]] = {}
    for name, value in request.query_params.multi_items():
        given.setdefault(name, []).append(value)
    try:
        return 200, answer(Asked(given))
    except StaleTreeError as error:
        return 409, str(error)
    except (NoSuchRunError, NotRecordedError) as error:
        return 404, str(error)
    except CannotOpenError as error:
        return 404, f"The run cannot be opened. {error}"
    except QueryError:
        return _fault(request)
    except ValueError as error:
        return 400, str(error)
    except Exception:
        return _fault(request)


def _fault(request: Any) -> tuple[int, str]:
    """A fault of ours: the terminal is told where, and the page only that."""
    sys.stderr.write(f"gradwatch: a fault in answering {request.url.path}\n")
    traceback.print_exc(file=sys.stderr)
    return 500, "The server failed at this; its terminal says more."


async def _events(hub: Hub) -> AsyncIterator[bytes]:
    async for change in hub.listen():
        yield b": still here\n\n" if change is None else b"data: " + _json(change) + b"\n\n"


def _json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")
