"""What a TensorBoard event says: a step, a time, and numbers under their tags."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gradwatch.integrations.tensorboard_import import protobuf, tensors

_START = 1
_STATISTICS = ("min", "max", "count", "sum", "sum_squares")


@dataclass(frozen=True)
class Event:
    """One record of an event file.

    Attributes:
        step, time: when it was logged.
        is_start: training (re)starts: what was logged at this step and later before
            does not count any more.
        numbers: by tag.
        other: what it holds beside numbers and is not taken over: texts, images, ...
    """

    step: int
    time: float
    is_start: bool = False
    numbers: dict[str, float] = field(default_factory=dict)
    other: tuple[str, ...] = ()


class Reader:
    """Understands the events of one file, in their order.

    What a tag is (a number, a histogram, a picture) is said with its first value only.
    A histogram's buckets do not fit the bins of ours, so it is kept as what is exactly
    known of it: `<tag>/histogram/count`, `min` and `max`; and `mean`, `std` and `l2` where
    the moments are given. In TensorFlow 2's form a histogram of a single bucket is also how a
    constant tensor is written, with bounds that are not its own: there only the count.

    Example:

    >>> from gradwatch.integrations.tensorboard_import.events import Reader
    >>> from gradwatch.sinks.event_file import scalar, summary_event
    >>> Reader().event(summary_event(3, 1.5, [scalar("loss", 0.25)]))
    Event(step=3, time=1.5, is_start=False, numbers={'loss': 0.25}, other=())
    """

    def __init__(self) -> None:
        self._plugins: dict[str, str] = {}

    def event(self, data: bytes) -> Event:
        """The event of a record.

        Raises:
            protobuf.MessageError: it is none.
        """
        step, time, is_start = 0, 0.0, False
        found: dict[str, float] = {}
        other: list[str] = []
        for number, value in protobuf.fields(data):
            if number == 1:
                time = protobuf.double(value)
            elif number == 2:
                step = protobuf.whole(value)
            elif number == 5:
                self._summary(protobuf.octets(value), found, other)
            elif number == 7:
                status = dict(protobuf.fields(protobuf.octets(value))).get(1)
                is_start = status == _START
            elif number in (4, 8, 9):
                other.append({4: "graph", 8: "run metadata", 9: "graph"}[number])
        return Event(step, time, is_start, found, tuple(other))

    def _summary(self, message: bytes, found: dict[str, float], other: list[str]) -> None:
        for number, value in protobuf.fields(message):
            if number == 1:
                known = dict(protobuf.fields(protobuf.octets(value)))
                tag = protobuf.text(known.get(1, b""))
                numbers = self._value(tag, known)
                if numbers is None:
                    other.append(self._name_of(tag, known))
                else:
                    found.update(numbers)

    def _value(self, tag: str, known: dict[int, int | bytes]) -> dict[str, float] | None:
        if 9 in known:
            self._plugins[tag] = _plugin(protobuf.octets(known[9])) or self._plugins.get(tag, "")
        if 2 in known:
            return {tag: protobuf.single(known[2])}
        if 5 in known:
            return dict(_histogram(tag, protobuf.octets(known[5])))
        if 8 not in known:
            return None
        plugin = self._plugins.get(tag, "")
        if plugin not in ("", "scalars", "histograms"):
            return None
        values = tensors.numbers(protobuf.octets(known[8]))
        if values is None:
            return None
        if plugin == "histograms":
            return _tensor_histogram(tag, values)
        return {tag: float(values.ravel()[0])} if values.size == 1 else None

    def _name_of(self, tag: str, known: dict[int, int | bytes]) -> str:
        if 4 in known:
            return "image"
        if 6 in known:
            return "audio"
        plugin = self._plugins.get(tag, "")
        return plugin.removesuffix("s") or "tensor"


def _place(tag: str) -> str:
    """Where what is known of a histogram is kept; Keras's tags end in `/histogram` already."""
    return tag if tag.endswith("/histogram") else f"{tag}/histogram"


def _plugin(metadata: bytes) -> str:
    data = dict(protobuf.fields(metadata)).get(1, b"")
    return protobuf.text(dict(protobuf.fields(protobuf.octets(data))).get(1, b""))


def _histogram(tag: str, message: bytes) -> Iterator[tuple[str, float]]:
    """TensorFlow 1's form, also that of PyTorch and tensorboardX: exact moments and bounds."""
    known = dict.fromkeys(_STATISTICS, 0.0)
    for number, value in protobuf.fields(message):
        if 1 <= number <= len(_STATISTICS):
            known[_STATISTICS[number - 1]] = protobuf.double(value)
    count, place = known["count"], _place(tag)
    yield f"{place}/count", count
    if count > 0:
        mean, square = known["sum"] / count, known["sum_squares"] / count
        spread = max(square - mean * mean, 0.0)
        spread = 0.0 if known["min"] == known["max"] else spread
        yield f"{place}/min", known["min"]
        yield f"{place}/max", known["max"]
        yield f"{place}/mean", mean
        yield f"{place}/std", math.sqrt(spread)
        yield f"{place}/l2", math.sqrt(max(known["sum_squares"], 0.0))


def _tensor_histogram(tag: str, buckets: NDArray[np.float64]) -> dict[str, float] | None:
    """TensorFlow 2's form: rows of a lower edge, an upper edge and a count."""
    if buckets.ndim != 2 or buckets.shape[1] != 3:
        return None
    count, place = float(buckets[:, 2].sum()), _place(tag)
    found = {f"{place}/count": count}
    if len(buckets) > 1 and count > 0:
        found[f"{place}/min"] = float(buckets[0, 0])
        found[f"{place}/max"] = float(buckets[-1, 1])
    return found
