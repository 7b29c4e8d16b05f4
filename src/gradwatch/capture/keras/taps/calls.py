"""The calls of a layer in one step, and the names of what they returned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gradwatch.capture.keras.taps import Passage

# A cell that torch calls once a time step would otherwise be a thousand sites.
MOST_CALLS = 32


@dataclass
class Call:
    """One call of a layer: an entry for each tensor that it returned."""

    number: int
    """Counted from 1 in the step."""
    passages: list[Passage] = field(default_factory=list)
    refusal: str | None = None
    """Why it was not noted, if it was not."""


def site_paths(path: str, calls: Sequence[Call]) -> Iterator[tuple[str, Passage]]:
    """The paths of the tensors that a layer returned: `net/a`, `net/a@2`, `net/b:1`."""
    for call in calls:
        called = path if call.number == 1 else f"{path}@{call.number}"
        several = len(call.passages) > 1
        for i, passage in enumerate(call.passages):
            if passage.output is not None:
                yield (f"{called}:{i}" if several else called), passage
