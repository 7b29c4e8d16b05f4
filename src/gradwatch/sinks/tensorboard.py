"""Readings as TensorBoard scalars and histograms."""

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import FIELDS, Kind, Reading, finite, stacked
from gradwatch.sinks.base import SINK_SYNONYMS, RunInfo, Sink
from gradwatch.sinks.event_file import (
    EventFile,
    histogram,
    image,
    scalar,
    start_event,
    summary_event,
)
from gradwatch.sinks.histogram_buckets import buckets
from gradwatch.sinks.scalar_table import ScalarTable, ScalarTables
from gradwatch.sinks.scalar_tags import check_statistics
from gradwatch.util import suggests_arguments

Array = NDArray[np.float64]

NONFINITE = slice(FIELDS.index("nan"), FIELDS.index("neginf") + 1)


class TensorBoard(Sink):
    """Writes an event file into the run's directory, for `tensorboard --logdir`.

    TensorBoard itself need not be installed. It groups tags by the text before
    the first slash, in alphabetical order, so these are the sections of its pages:

    | tag | what it shows |
    |---|---|
    | `loss` | the loss of the step |
    | `metrics/accuracy` | a metric after the step, as the training reported it |
    | `metrics/epoch_val_loss` | a metric at the end of an epoch |
    | `metrics/learning_rate` | the learning rate |
    | `model/gradient_l2` | all variables together; so for weights, outputs and other kinds |
    | `model/update_ratio` | the update's size relative to the variables' |
    | `model/dead_unit_mean` | the share of units that are dead |
    | `per_layer_gradient_l2/sequential/dense` | the layer's variables together |

    Where they were asked for:

    | tag | what it shows |
    |---|---|
    | `per_tensor_gradient/sequential/dense/kernel` | a histogram |
    | `per_tensor_gradient_picture/sequential/conv/kernel` | a picture |
    | `spectral_norm/sequential/dense/kernel` | a spectral norm |
    | `group_gradient_l2/encoder` | a group of variables, where there are `Totals` of them |
    | `per_tensor_gradient_nonfinite/sequential/dense/kernel` | NaN and Inf elements, if any |

    With `statistics`, each of them is written of every tensor, layer and the model, and so are
    all other numbers:

    | tag | what it shows |
    |---|---|
    | `per_tensor_gradient_mean/sequential/dense/kernel` | a statistic of one variable |
    | `per_layer_gradient_mean/sequential/dense` | of its layer |
    | `model/gradient_mean` | of the model |
    | `per_tensor_update_ratio/sequential/dense/kernel` | the update relative to the variable |
    | `per_tensor_output_zero_share/sequential/dense` | the share of a layer's outputs that are 0 |
    | `model/epoch` | the epoch that the step was in |

    A number is NaN or infinite if an element of its tensors is. In a loop with
    named groups, each has its totals: `generator/gradient_l2`. A lone surrogate in a name,
    which cannot be written, appears as `\\udc80`. A histogram has at most 64 buckets; its
    bounds, sums and counts are exact.

    Args:
        statistics: of those in `gradwatch.core.STATISTICS`; `"all"` for all of them. Without, a
            few numbers for each layer and the model.

    Example:

    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from gradwatch.core import Reading
    >>> from gradwatch.sinks import RunInfo, TensorBoard
    >>> from gradwatch.core import Kind, Site, Summary
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> sink = TensorBoard(statistics=("l2", "max"))
    >>> sink.open(RunInfo(directory))
    >>> sink.write(Reading(1, 1, 0.0, [Site(Kind.WEIGHT, "dense/kernel")],
    ...                    Summary.unpack(Summary.of([3.0, 4.0]).pack()[None])))
    >>> sink.close()
    >>> len(list(directory.glob("events.out.tfevents.*")))
    1
    """

    @suggests_arguments(SINK_SYNONYMS)
    def __init__(self, statistics: str | Sequence[str] | None = None) -> None:
        self.statistics = check_statistics(statistics)
        self._run: RunInfo | None = None
        self._events: EventFile | None = None
        self._described: set[str] = set()
        self._tables = ScalarTables(self.statistics)
        self._fresh = True
        self._next_step = 1

    def open(self, run: RunInfo) -> None:
        self.close()
        self._run = run
        self._next_step = run.first_step

    def write(self, reading: Reading) -> None:
        self.write_many([reading])

    def write_many(self, readings: Sequence[Reading]) -> None:
        if self._run is None:
            raise RuntimeError("TensorBoard.write() was called before open().")
        events = self._event_file(self._run)
        batch = self._restart(self._run) if self._fresh else []
        described: set[str] = set()
        try:
            with np.errstate(all="ignore"):
                batch += self._events_of(readings, self._run, described)
            events.append(batch)
        except BaseException:
            self._tables.clear()
            raise
        # Only now: a failed write has described nothing.
        self._described |= described
        self._fresh = False
        self._next_step = readings[-1].step + 1

    def close(self) -> None:
        if self._events is not None:
            self._events.close()
            self._events = None

    def _event_file(self, run: RunInfo) -> EventFile:
        """The file to write to: made at the first reading, and again if it was deleted."""
        if self._events is None or self._events.lost:
            self.close()
            self._events = EventFile(run.directory)
            self._described.clear()
            self._tables.clear()
            self._fresh = True
        return self._events

    def _restart(self, run: RunInfo) -> list[bytes]:
        """Makes TensorBoard drop the steps of an earlier attempt that this one repeats."""
        # Twice, because TensorBoard takes the first START that it ever meets in
        # a directory for the beginning, and drops nothing for it.
        return [start_event(self._next_step, time.time())] * 2 if run.first_step > 1 else []

    def _events_of(
        self, readings: Sequence[Reading], run: RunInfo, described: set[str]
    ) -> list[bytes]:
        """The events of readings, in their order; those of the same sites are made together."""

        def meaning(tag: str, about: Kind | str) -> str:
            """The description, on the tag's first event only."""
            words = run.meaning.get(about) if isinstance(about, Kind) else about
            if not words or tag in self._described or tag in described:
                return ""
            described.add(tag)
            return words

        alike: dict[ScalarTable, list[int]] = {}
        for i, reading in enumerate(readings):
            alike.setdefault(self._tables.table_for(reading), []).append(i)
        events = [b""] * len(readings)
        for table, places in alike.items():
            own = [readings[i] for i in places]
            rows = stacked(own)
            nonfinite = rows[:, NONFINITE].sum(axis=1)
            has_others = nonfinite.any(axis=1).tolist()
            encoded = table.encoded(own, rows, meaning)
            for k, (i, reading) in enumerate(zip(places, own, strict=True)):
                others: list[bytes] = []
                if has_others[k] or reading.pictures or reading.cells:
                    others += _others(reading, nonfinite[k], meaning)
                events[i] = summary_event(reading.step, reading.time, others, encoded[k])
        return events


def _others(
    reading: Reading, nonfinite: Array, meaning: Callable[[str, Kind | str], str]
) -> Iterator[bytes]:
    """Values that not every step has: counts of non-finite elements, pictures, histograms."""
    for i in np.flatnonzero(nonfinite > 0).tolist():
        site = reading.sites[i]
        if not site.kind.is_number:
            tag = f"per_tensor_{site.kind}_nonfinite/{site.path}"
            yield scalar(tag, float(nonfinite[i]), meaning(tag, site.kind))
    for site, drawn in reading.pictures.items():
        tag = f"per_tensor_{site.kind}_picture/{site.path}"
        yield image(tag, drawn, meaning(tag, site.kind))
    every = [(reading.sites[i], reading.histogram(i)) for i in reading.cells]
    counted = [(site, x) for site, x in every if x is not None and finite(x.summary) > 0]
    every_bucket = buckets([taken for _, taken in counted])
    for (site, taken), found in zip(counted, every_bucket, strict=True):
        tag = f"per_tensor_{site.kind}/{site.path}"
        yield histogram(
            tag,
            *found,
            bounds=(float(taken.summary.min), float(taken.summary.max)),
            moments=(float(taken.summary.sum), float(taken.summary.sum_squares)),
            description=meaning(tag, site.kind),
        )
