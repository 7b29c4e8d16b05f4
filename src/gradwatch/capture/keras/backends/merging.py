"""Merges the measurements of the replicas of a training step."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from gradwatch.capture.keras.step_inputs import BATCH_SIZE
from gradwatch.capture.site_table import Row
from gradwatch.core import FIELDS, Kind
from gradwatch.watches import VITAL_KINDS

SPREAD = frozenset(
    {
        Kind.OUTPUT,
        Kind.OUTPUT_GRADIENT,
        Kind.SATURATED,
        Kind.INPUT,
        Kind.TARGET,
        *VITAL_KINDS,
    }
)
"""Kinds of which each replica has a part: the whole's summary is that of the parts, merged."""

_SUMS = FIELDS.index("min")
"""So many of a summary's numbers add up; the last two are the least and the greatest."""


def merged_rows(tables: Sequence[Any]) -> Any:
    """The packed summaries of tensors of which each replica's table has a part, row by row."""
    every = tf.stack(tables)
    return tf.concat(
        [
            tf.reduce_sum(every[:, :, :_SUMS], 0),
            tf.reduce_min(every[:, :, _SUMS : _SUMS + 1], 0),
            tf.reduce_max(every[:, :, _SUMS + 1 :], 0),
        ],
        1,
    )


def joined_tensor(same: Sequence[Row]) -> Any:
    """One tensor for the step from the same row of each replica, where that is small."""
    tensors = [row.tensor for row in same]
    site = same[0].site
    if any(tensor is None for tensor in tensors):
        return None
    if site.kind is Kind.DEAD_UNIT:
        return tf.reduce_min(tf.stack(tensors), 0)  # Dead is what no replica has seen alive.
    if site.kind is Kind.LOSS:
        # Each replica's is the mean over its samples; Keras optimises the mean of these.
        return tf.add_n(tensors) / len(tensors)
    if site.path == BATCH_SIZE:
        return tf.add_n(tensors)
    return tensors[0]


class Blocks:
    """Tables of some rows each, put together in the order of all rows."""

    def __init__(self) -> None:
        self._places: list[int] = []
        self._tables: list[Any] = []

    def add(self, places: Sequence[int], table: Any) -> None:
        """A table whose rows belong at these places."""
        if places:
            self._places.extend(places)
            self._tables.append(table)

    def together(self) -> Any:
        """All rows, by their places; None if there are none."""
        if not self._tables:
            return None
        return tf.gather(tf.concat(self._tables, 0), np.argsort(self._places))
