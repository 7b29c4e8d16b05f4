"""Follows a run on a thread of the kernel, and sends its overview whenever it has changed.

While a cell runs, a kernel takes no messages but still sends those of its threads.
"""

from __future__ import annotations

import json
import threading
import time
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gradwatch.read import Run, Status, is_run
from gradwatch.view.notebook.widget import live_overview
from gradwatch.view.notebook.widget.static_display import NO_RUN
from gradwatch.view.web import Server

_EVERY, _SELDOM = 1.0, 10.0
"""Seconds between two looks at the run, at least and at most."""
_MAX_SHARE = 1 / 20
"""The share of the time that the thread may compute."""
_MAX_WANTED = 4
"""How many heatmaps are sent because a page has asked for them."""
_PATIENCE = 2.0

Found = Path | Run | None


class LiveFeed:
    """The run that `find` finds, for one widget.

    Args:
        find: the run or its directory; None as long as there is none.
        may_go_on: whether a run that is not live may be continued, or another one begin.
        send: gets the properties of the widget that have changed, on the feed's thread; it returns
            False if there is no widget any more.
    """

    def __init__(
        self,
        find: Callable[[], Found],
        may_go_on: Callable[[], bool],
        send: Callable[[dict[str, str]], bool],
    ) -> None:
        self._find, self._may_go_on, self._send = find, may_go_on, send
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._found: Found = None
        self._server: Server | None = None
        self._sent: dict[str, str] = {}
        self._last: tuple[Any, ...] = ()
        self._is_diagnosed = False
        self._wanted: OrderedDict[tuple[str, str], None] = OrderedDict()

    def start(self) -> None:
        """Begin to follow the run, unless that is being done."""
        with self._lock:
            is_running = self._thread is not None and self._thread.is_alive()
            if is_running or self._closed.is_set():
                return
            self._thread = threading.Thread(target=self._work, name="gradwatch widget", daemon=True)
            self._thread.start()

    def answer(self, name: str, parameters: Mapping[str, Any]) -> tuple[int, Any]:
        """The status and the answer to a request of the page, as from the viewer's server."""
        server = self._server
        if server is None:
            return 404, NO_RUN
        values = {key: [str(value)] for key, value in parameters.items() if value is not None}
        status, found = server.answer(name, values)
        if status == 200 and name == "heatmap":
            self._want(values["kind"][0], values["statistic"][0])
        return status, b64encode(found).decode() if isinstance(found, bytes) else found

    def close(self) -> None:
        """End the thread, and free what it holds."""
        self._closed.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_PATIENCE)
        self._leave()

    def _want(self, kind: str, statistic: str) -> None:
        with self._lock:
            self._wanted[kind, statistic] = None
            self._wanted.move_to_end((kind, statistic), last=False)
            while len(self._wanted) > _MAX_WANTED:
                self._wanted.popitem()

    def _work(self) -> None:
        is_first = goes_on = True
        while goes_on and not self._closed.is_set():
            begun = time.thread_time()
            try:
                goes_on = self._look()
            except Exception as error:
                # Perhaps a file that is just being replaced: the next look may succeed.
                goes_on = self._tell(said=f"The run cannot be read: {error}")
            # The first look imports what is needed, too.
            spent = 0.0 if is_first else time.thread_time() - begun
            is_first = False
            if goes_on:
                self._closed.wait(min(max(_EVERY, spent / _MAX_SHARE), _SELDOM))

    def _look(self) -> bool:
        """Send what has changed; whether there may be more later."""
        found = self._find()
        if found is None or (isinstance(found, Path) and not is_run(found)):
            return self._tell(said=NO_RUN) and self._may_go_on()
        if found != self._found or self._server is None:
            self._open(found)
        server = self._server
        assert server is not None
        (id,) = server.library.names
        view = server.library.view(id)
        changed = server.library.changed()
        is_live = view.run.status is Status.LIVE
        with self._lock:
            wanted = list(self._wanted)
        now = (found, view.run.status, wanted)
        is_told = True
        if changed or now != self._last or not self._is_diagnosed:
            status, run = server.answer("run", {"run": [id]})
            if not isinstance(run, dict):
                raise RuntimeError(f"{status} {run!r}")
            is_told = self._tell(
                said="",
                trees=_json(live_overview.trees(view, run)),
                overview=_json(live_overview.overview(view, run, wanted)),
            )
            self._last, self._is_diagnosed = now, is_live or run["findings_complete"]
        return is_told and (is_live or not self._is_diagnosed or self._may_go_on())

    def _tell(self, **properties: str) -> bool:
        fresh = {name: text for name, text in properties.items() if self._sent.get(name) != text}
        self._sent |= fresh
        if self._closed.is_set():
            return False
        try:
            return self._send(fresh)
        except Exception:
            return False  # The kernel is ending, or there is no page that could be told.

    def _open(self, found: Path | Run) -> None:
        self._leave()
        run = found if isinstance(found, Run) else Run(found)
        self._server = Server(run, run.name, diagnoses_live=False)
        self._found = found

    def _leave(self) -> None:
        server, self._server = self._server, None
        if server is None:
            return
        if isinstance(self._found, Run):
            server.diagnosis.close()  # the run is the user's
        else:
            with suppress(OSError):
                server.close()


def _json(value: object) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))
