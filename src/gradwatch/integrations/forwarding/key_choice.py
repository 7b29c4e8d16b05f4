"""Which of a run's numbers are forwarded."""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

MAX_KEYS = 300
"""How many keys are forwarded at most if the user has not chosen them. Trackers become slow with
thousands of them, and nobody looks at so many charts."""
_RESERVE = 5
"""One fifth of the room stays free for readings that have other keys, such as those of an epoch."""
_PARTS = "per_"
"""How sections of keys begin that have one key for each layer or tensor."""

V = TypeVar("V")


class KeyChoice:
    """Keeps all keys that match the user's patterns; without patterns, `MAX_KEYS` at most.

    Losses, metrics and totals of the model come first. Of layers that are too many, some are kept
    that are evenly spaced from the first to the last, the same for each kind.

    >>> choice = KeyChoice(limit=4)
    >>> sorted(choice.kept({"loss": 1.0, **{f"per_layer_gradient_l2/{i}": 1.0 for i in range(9)}}))
    ['loss', 'per_layer_gradient_l2/0', 'per_layer_gradient_l2/4', 'per_layer_gradient_l2/8']
    """

    def __init__(self, patterns: Sequence[str] | None = None, limit: int = MAX_KEYS) -> None:
        self._patterns, self._limit = patterns, limit
        self._known: set[str] = set()
        self._chosen: set[str] = set()

    @property
    def left_out(self) -> int:
        """How many keys are not forwarded because there are too many."""
        return 0 if self._patterns is not None else len(self._known) - len(self._chosen)

    def kept(self, values: Mapping[str, V]) -> dict[str, V]:
        """Those of the values that are forwarded."""
        if not values.keys() <= self._known:
            self._decide([key for key in values if key not in self._known])
        return {key: value for key, value in values.items() if key in self._chosen}

    def _decide(self, keys: Sequence[str]) -> None:
        self._known.update(keys)
        if self._patterns is not None:
            self._chosen.update(k for k in keys if any(fnmatchcase(k, p) for p in self._patterns))
            return
        sections: dict[str, list[str]] = {}
        for key in keys:
            section = key.partition("/")[0]
            sections.setdefault(section if section.startswith(_PARTS) else "", []).append(key)
        room = self._limit - len(self._chosen)
        single = sections.pop("", [])[:room]
        self._chosen.update(single)
        room -= len(single)
        room -= room // _RESERVE if sum(map(len, sections.values())) > room else 0
        # The shortest first: what they do not need is room for the others.
        for count, own in enumerate(sorted(sections.values(), key=len)):
            kept = list(_spread(own, room // (len(sections) - count)))
            self._chosen.update(kept)
            room -= len(kept)


def _spread(keys: Sequence[str], most: int) -> Iterable[str]:
    """At most so many keys, evenly spaced, with the first and the last."""
    if len(keys) <= most:
        return keys
    if most < 2:
        return keys[:most]
    return [keys[i * (len(keys) - 1) // (most - 1)] for i in range(most)]
