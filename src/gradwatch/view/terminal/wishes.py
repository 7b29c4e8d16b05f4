"""What the user of `top` wishes to see, and how keys change it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradwatch.view.glance import layer_table as table

NETWORK = "network"
ORDERS: dict[str, tuple[str, str, str]] = {
    NETWORK: ("n", table.LAYER, ""),
    "gradient": ("g", table.GRADIENT, "gradient_l2"),
    "update": ("u", table.UPDATE, "update_ratio"),
    "weight": ("w", table.WEIGHT, "weight_l2"),
    "zeros": ("z", table.ZEROS, "gradient_zero_share"),
    "nonfinite": ("x", table.NOT_FINITE, "nonfinite"),
}
"""What layers can be ordered by: its key, its column, and where its numbers are."""
_BY_KEY = {key: order for order, (key, _, _) in ORDERS.items()}


@dataclass(frozen=True)
class Wishes:
    """What is to be seen.

    Attributes:
        order: one of `ORDERS`; by numbers, the largest come first.
        reverse: whether the other way round.
        offset: how many layers are above the first one shown.
        patterns: which sites, see `gradwatch.select`.
        typing: the filter as far as it is typed; None while none is.
        quit: whether it is over.
    """

    order: str = NETWORK
    reverse: bool = False
    offset: int = 0
    patterns: tuple[str, ...] = ()
    typing: str | None = None
    quit: bool = False

    def pressed(self, key: str, layers: int, page: int) -> Wishes:
        """The wishes after a key.

        Args:
            key: a character, or the name of a key, see `keys`.
            layers: how many there are to scroll through.
            page: how many of them are seen at a time.

        Example:

        >>> from gradwatch.view.terminal.wishes import Wishes
        >>> wishes = Wishes().pressed("g", 100, 20).pressed("pagedown", 100, 20)
        >>> wishes.order, wishes.offset
        ('gradient', 20)
        """
        if self.typing is not None:
            return self._typed(key)
        if key in _BY_KEY:
            return replace(self, order=_BY_KEY[key], offset=0)
        moved = {
            "up": self.offset - 1,
            "k": self.offset - 1,
            "down": self.offset + 1,
            "j": self.offset + 1,
            "pageup": self.offset - page,
            "pagedown": self.offset + page,
            " ": self.offset + page,
            "home": 0,
            "end": layers,
        }
        if key in moved:
            return replace(self, offset=max(0, min(moved[key], layers - page)))
        match key:
            case "r":
                return replace(self, reverse=not self.reverse, offset=0)
            case "/":
                return replace(self, typing="")
            case "escape":
                return replace(self, patterns=(), offset=0)
            case "q":
                return replace(self, quit=True)
        return self

    def ordered(self, layers: Sequence[Mapping[str, Any]]) -> list[int]:
        """The places of the layers in the order wished for; those without the number last."""
        field = ORDERS[self.order][2]
        places = list(range(len(layers)))
        if not field:
            return places[::-1] if self.reverse else places
        numbers = [layer[field] for layer in layers]
        known = [i for i in places if numbers[i] is not None and numbers[i] == numbers[i]]
        others = [i for i in places if numbers[i] is None or numbers[i] != numbers[i]]
        return [*sorted(known, key=lambda i: numbers[i], reverse=not self.reverse), *others]

    def _typed(self, key: str) -> Wishes:
        assert self.typing is not None
        if key == "enter":
            # A path has no space in nearly all networks, so several patterns can be given.
            return replace(self, typing=None, patterns=tuple(self.typing.split()), offset=0)
        if key == "escape":
            return replace(self, typing=None)
        if key == "backspace":
            return replace(self, typing=self.typing[:-1])
        return replace(self, typing=self.typing + key) if len(key) == 1 else self
