"""The numbers in TensorBoard's `Event` messages. Imports TensorBoard."""

import math
from dataclasses import dataclass, field

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.util import tensor_util

from gradwatch.store import checks

_MAX_ELEMENTS = 1 << 24
_MOST_DIMENSIONS = 32
_LONGEST_TAG = 4096


class EventError(ValueError):
    """A record is not an event."""


@dataclass(frozen=True)
class Event:
    """One record of an event file; its numbers by tag.

    `is_start` says that training (re)starts: values logged earlier at this step or later are void.
    `other` names values that are not imported: texts, images, graphs. `problems` are values that
    cannot be.
    """

    step: int
    time: float
    is_start: bool = False
    numbers: dict[str, float] = field(default_factory=dict)
    other: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class EventParser:
    """Parses the events of one file, in their order.

    Only the first value of a tag says what the tag is (a scalar, a histogram, an image).
    The buckets of a histogram do not fit gradwatch's bins, so only its exact statistics are
    kept: `<tag>/histogram/count`, `min` and `max`, and `mean`, `std` and `l2` if the moments
    were logged. TensorFlow 2 writes a constant tensor as one bucket that is wider than
    the value, so of a single bucket only the count is kept.
    """

    def __init__(self) -> None:
        self._plugins: dict[str, str] = {}

    def parse(self, data: bytes) -> Event:
        """The event of a record; raises `EventError` if it is none."""
        numbers: dict[str, float] = {}
        other: list[str] = []
        problems: list[str] = []
        try:
            message = event_pb2.Event.FromString(data)
        except (DecodeError, ValueError) as error:
            raise EventError(str(error)) from error
        _check_moment(message)
        for value in message.summary.value:
            try:
                found = self._numbers(value)
            except ValueError as error:
                problems.append(str(error))
                continue
            if found is None:
                other.append(self._name(value))
            else:
                numbers |= found
        what = message.WhichOneof("what")
        if what in ("graph_def", "meta_graph_def", "tagged_run_metadata"):
            other.append("run metadata" if what == "tagged_run_metadata" else "graph")
        is_start = message.session_log.status == event_pb2.SessionLog.START
        return Event(
            message.step, message.wall_time, is_start, numbers, tuple(other), tuple(problems)
        )

    def _numbers(self, value: summary_pb2.Summary.Value) -> dict[str, float] | None:
        """The numbers of a value by their tags; None if it is not a number or a histogram.

        Raises `ValueError` for one that cannot be.
        """
        if len(value.tag) > _LONGEST_TAG:
            raise ValueError(f"a tag of {len(value.tag):,} characters")
        plugin = value.metadata.plugin_data.plugin_name or self._plugins.get(value.tag, "")
        self._plugins[value.tag] = plugin
        form = value.WhichOneof("value")
        if form == "simple_value":
            return {value.tag: value.simple_value}
        if form == "histo":
            return _with_prefix(value.tag, _histogram(value.histo))
        if form != "tensor" or plugin not in ("", "scalars", "histograms"):
            return None
        shape = _shape(value.tensor)
        if plugin == "histograms":
            values = _array(value.tensor) if len(shape) == 2 and shape[1] == 3 else None
            return None if values is None else _with_prefix(value.tag, _tensor_histogram(values))
        values = _array(value.tensor) if math.prod(shape) == 1 else None
        return None if values is None else {value.tag: float(values.item())}

    def _name(self, value: summary_pb2.Summary.Value) -> str:
        form = value.WhichOneof("value")
        if form in ("image", "audio"):
            return str(form)
        return self._plugins[value.tag].removesuffix("s") or "tensor"


def _check_moment(message: event_pb2.Event) -> None:
    """Raise `EventError` for a step or a time that cannot be."""
    try:
        checks.moment(message.wall_time)
        checks.step(message.step)
    except ValueError as error:
        raise EventError(f"its time is {message.wall_time:g}, its step {message.step:,}") from error


def _shape(tensor: TensorProto) -> tuple[int, ...]:
    """The shape of a tensor; raises `ValueError` if it cannot be."""
    rank = len(tensor.tensor_shape.dim)
    if rank > _MOST_DIMENSIONS:
        raise ValueError(f"a tensor of {rank:,} dimensions")
    shape = tuple(dim.size for dim in tensor.tensor_shape.dim)
    if min(shape, default=0) < 0 or math.prod(shape) > _MAX_ELEMENTS:
        raise ValueError(f"a tensor of shape {shape}")
    return shape


def _array(tensor: TensorProto) -> NDArray[np.float64] | None:
    """The elements of a tensor; None if they are not numbers."""
    try:
        values = tensor_util.make_ndarray(tensor)
    except (TypeError, KeyError):  # A type that TensorBoard does not read, such as bfloat16.
        return None
    return values.astype(np.float64) if values.dtype.kind in "biuf" else None


def _with_prefix(tag: str, statistics: dict[str, float] | None) -> dict[str, float] | None:
    """Statistics of a histogram by tag; Keras's tags already end in `/histogram`."""
    prefix = tag if tag.endswith("/histogram") else f"{tag}/histogram"
    return statistics and {f"{prefix}/{name}": value for name, value in statistics.items()}


def _histogram(histogram: summary_pb2.HistogramProto) -> dict[str, float]:
    """Of TensorFlow 1, PyTorch and tensorboardX: with exact moments and bounds."""
    count, low, high = histogram.num, histogram.min, histogram.max
    if not count > 0:
        return {"count": count}
    mean, square = histogram.sum / count, histogram.sum_squares / count
    variance = 0.0 if low == high else max(square - mean * mean, 0.0)
    return {
        "count": count,
        "min": low,
        "max": high,
        "mean": mean,
        "std": math.sqrt(variance),
        "l2": math.sqrt(max(histogram.sum_squares, 0.0)),
    }


def _tensor_histogram(buckets: NDArray[np.float64]) -> dict[str, float] | None:
    """Of TensorFlow 2: rows of a lower edge, an upper edge and a count."""
    if buckets.ndim != 2 or buckets.shape[1] != 3:
        return None
    count = float(buckets[:, 2].sum())
    if len(buckets) < 2 or not count > 0:
        return {"count": count}
    return {"count": count, "min": float(buckets[0, 0]), "max": float(buckets[-1, 1])}
