"""How much a report may carry, and what did not fit."""

from __future__ import annotations

from typing import Any

from gradwatch.view.report.page import inert


class Room:
    """So many bytes of JSON, handed out first come, first served.

    Args:
        size: how many bytes there are.

    Example:

    >>> from gradwatch.view.report.room import Room
    >>> room = Room(10)
    >>> room.take([1, 2, 3]), room.take([1, 2, 3]), room.left
    (True, False, 2)
    """

    def __init__(self, size: int) -> None:
        self.left = size

    def take(self, part: Any) -> bool:
        """Whether there is room for this part too; if so, there is less from then on."""
        needed = len(inert(part)) + 1  # and a comma
        if needed > self.left:
            return False
        self.left -= needed
        return True
