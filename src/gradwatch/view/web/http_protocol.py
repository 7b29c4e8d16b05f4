"""The HTTP of uvicorn, with our headers on the responses that it makes by itself."""

from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from gradwatch.view.web.request_guard import HEADERS

_MAX_REQUEST = 256 * 1024
_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


class HttpProtocol(H11Protocol):
    """Every response has all of `HEADERS`, also that to a request which never reaches the app."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn = _Connection(h11.SERVER, _MAX_REQUEST)


class _Connection(h11.Connection):
    def send(self, event: Any) -> Any:
        if isinstance(event, h11.Response):
            present = {name for name, _ in event.headers}
            missing = [header for header in _HEADERS if header[0] not in present]
            event = h11.Response(
                status_code=event.status_code,
                reason=event.reason,
                headers=[*event.headers, *missing],
            )
        return super().send(event)
