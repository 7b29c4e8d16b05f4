"""A notebook's kernel and its messages, without a notebook."""

from __future__ import annotations

import queue
from typing import Any

import comm
from comm.base_comm import BaseComm


class Wire(BaseComm):
    """The comm of a widget: what the kernel sends lies in a queue."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.sent: queue.Queue[dict[str, Any]] = queue.Queue()
        super().__init__(*args, **kwargs)

    def publish_msg(
        self, msg_type: str, data: Any = None, metadata: Any = None, buffers: Any = None, **_: Any
    ) -> None:
        self.sent.put({"type": msg_type, **(data or {})})

    def receive(self, content: Any) -> None:
        """A message from the page, as the kernel takes it when no cell runs."""
        self.handle_msg(
            {"content": {"data": {"method": "custom", "content": content}}, "buffers": []}
        )


def wired(monkeypatch: Any) -> None:
    """Have the widgets of a test use it."""
    monkeypatch.setattr(comm, "create_comm", lambda **options: Wire(**options))
