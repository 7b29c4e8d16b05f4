"""What `top` shows, and how keys change it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradwatch.view.text import layer_table as table

NETWORK = "network"
ORDERS: dict[str, tuple[str, str, str]] = {
    NETWORK: ("n", table.LAYER, ""),
    "gradient": ("g", table.GRADIENT, "gradient_l2"),
    "update": ("u", table.UPDATE, "update_ratio"),
    "weight": ("w", table.WEIGHT, "weight_l2"),
    "zeros": ("z", table.ZEROS, "gradient_zero_share"),
    "nonfinite": ("x", table.NOT_FINITE, "nonfinite"),
}
"""The orders of layers: the key that chooses it, its column, and its field in `layer_rows`."""
_BY_KEY = {key: order for order, (key, _, _) in ORDERS.items()}


@dataclass(frozen=True)
class ViewOptions:
    """What to show.

    `order` is one of `ORDERS`, with the largest number first. `offset` is the number of layers
    above the first visible one; `typing` is the filter typed so far, None if there is none.
    """

    order: str = NETWORK
    reverse: bool = False
    offset: int = 0
    patterns: tuple[str, ...] = ()
    typing: str | None = None
    quit: bool = False

    def pressed(self, key: str, layers: int, page: int) -> ViewOptions:
        """The options after a key, see `KeyDecoder`; `page` is the number of visible layers."""
        if self.typing is not None:
            return self._typed(key)
        if key in _BY_KEY:
            return replace(self, order=_BY_KEY[key], offset=0)
        by = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -page, "pagedown": page, " ": page}
        by |= {"home": -layers, "end": layers}
        if key in by:
            return replace(self, offset=max(0, min(self.offset + by[key], layers - page)))
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
        """The indices of the layers in this order; layers without the number come last.

        NaN counts as the largest: the layer has exploded.
        """
        field = ORDERS[self.order][2]
        places = list(range(len(layers)))
        if not field:
            return places[::-1] if self.reverse else places
        numbers = [layer[field] for layer in layers]
        known = [i for i in places if numbers[i] is not None]
        others = [i for i in places if numbers[i] is None]

        def size(i: int) -> tuple[bool, float]:
            return math.isnan(numbers[i]), 0.0 if math.isnan(numbers[i]) else numbers[i]

        return [*sorted(known, key=size, reverse=not self.reverse), *others]

    def _typed(self, key: str) -> ViewOptions:
        assert self.typing is not None
        if key == "enter":
            # Paths hardly ever contain a space, so a space separates patterns.
            return replace(self, typing=None, patterns=tuple(self.typing.split()), offset=0)
        if key == "escape":
            return replace(self, typing=None)
        if key == "backspace":
            return replace(self, typing=self.typing[:-1])
        return replace(self, typing=self.typing + key) if len(key) == 1 else self
