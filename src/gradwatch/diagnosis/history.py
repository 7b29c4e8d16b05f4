"""What rules look at: the latest measured steps in full, and the course of the loss."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import ADDED_LOSS, Kind, Reading, Site
from gradwatch.diagnosis.losses import Losses
from gradwatch.diagnosis.value_table import NONFINITE, Array, ValueTable, cached

T = TypeVar("T")

DEPTH = 64
_MOST_METRICS = 4096
_LONGEST_WARM_UP = 200
"""A learning rate that is to become so many times as large does not rise within a run."""
_LAG = 2.3
"""The RMS of a gradient / root of the second moment that may announce a spike of the loss."""
_KEPT_SAMPLES = 256
"""Steps whose samples are kept: those of a spike are asked for while it lasts."""


@dataclass(frozen=True)
class EpochLogs:
    """The logs of an epoch, and its last step."""

    epoch: int
    step: int
    logs: Mapping[str, float]


class History:
    """The course of a training so far, in bounded memory.

    Args:
        depth: the number of measured steps to keep of each kind, see `ValueTable`.
        pool: the number of consecutive losses to average into one, see `Losses`.

    Attributes:
        step: the newest step.
        first_step: the first step of which anything is known.
        losses: the losses of all steps of which they are known; none of a part of a training, whose
            loss need not fall. `part_losses` has these too.
        data_losses: the losses of measured steps without what is added to them, if that is known.
        epochs: the logs of the epochs that have ended.
        samples: by step, the numbers about the samples of its batch, see `worst_in`; the newest.
        numbers: other numbers by name, such as `learning_rate` and `loss_scale`: (step, value) at
            each change.
        metrics: (step, value) of the metrics that a loop has reported, by name.
        has_ended: whether the training has ended, for now.
        reading: the newest reading.

    Example:

    >>> import numpy as np
    >>> from gradwatch import Kind, Reading, Site, Summary
    >>> from gradwatch.diagnosis import History
    >>> history = History()
    >>> sites = [Site(Kind.GRADIENT, "a/kernel"), Site(Kind.LOSS, "loss")]
    >>> rows = np.stack([Summary.of(x).pack() for x in ([3.0, 4.0], [0.5])])
    >>> history.add(Reading(7, 1, 0.0, sites, Summary.unpack(rows)))
    >>> history.step, history.losses.latest
    (7, 0.5)
    >>> history[Kind.GRADIENT].latest("l2")
    array([5.])
    """

    def __init__(self, depth: int = DEPTH, pool: int = 1) -> None:
        self.step = 0
        self.first_step = 0
        self.losses = Losses(pool)
        self.part_losses = self.losses if pool else Losses()
        self.data_losses = Losses(pool)
        self.epochs: list[EpochLogs] = []
        self.samples: dict[int, Mapping[str, float]] = {}
        self.numbers: dict[str, list[tuple[int, float]]] = {}
        self.metrics: dict[str, list[tuple[int, float]]] = {}
        self.has_ended = False
        self.reading: Reading | None = None
        self._told: dict[str, int] = {}
        """The step at which each of the numbers was last told."""
        self._depth = depth
        self._cache: dict[object, object] = {}
        self._tables: dict[Kind, ValueTable] = {}
        self._sites: Sequence[Site] = ()
        """Those of the newest reading."""
        self._order: NDArray[np.intp] = np.empty(0, np.intp)
        """Its rows, sorted by kind."""
        self._parts: list[tuple[Kind, list[Site], slice]] = []
        """The sites of each kind, and where they are in this order."""
        self._bad: frozenset[int] = frozenset()
        """Places in this order that were not finite."""
        self._has_new_bad = False

    def __getitem__(self, kind: Kind) -> ValueTable:
        """The measurements of a kind; an empty table if there are none."""
        if kind not in self._tables:
            self._tables[kind] = ValueTable(kind, self._depth)
        return self._tables[kind]

    def __contains__(self, kind: Kind) -> bool:
        return kind in self._tables and len(self._tables[kind]) > 0

    def is_fresh(self, kind: Kind) -> bool:
        """Whether the kind was measured in the newest step."""
        return kind in self and self._tables[kind].latest_step == self.step

    def fresh_kinds(self) -> set[Kind]:
        """The kinds that were measured in the newest step."""
        return {kind for kind in self._tables if self.is_fresh(kind)}

    @property
    def is_suspect(self) -> bool:
        """Whether the rules are to be asked at once.

        A tensor has become NaN or infinite, or the loss is, or jumps, in this step; or a second
        moment begins to lag behind.
        """
        if self._has_new_bad or self.losses.spikes.open is not None or self._is_lagging():
            return True
        return self.losses.latest_step == self.step and not math.isfinite(self.losses.latest)

    def add(self, reading: Reading) -> None:
        """Add a reading; of a step's micro-batches, the last one counts."""
        self._advance(reading.step)
        # One that was measured late is the newest of what is known, whatever losses came before.
        self.step = reading.step
        self.reading = reading
        if reading.sites is not self._sites:
            if list(reading.sites) != list(self._sites):
                self._sort_by_kind(reading.sites)
            self._sites = reading.sites
        rows = reading.summary.pack()[self._order]
        is_finite = not rows[:, NONFINITE].any()
        self._note_bad(rows, is_finite)
        for kind, sites, place in self._parts:
            self[kind].add(reading.step, sites, rows[place], is_finite=is_finite)
        numbers = reading.numbers(Kind.SCALAR)
        for loss in list(reading.losses().values())[:1]:
            self._add_loss(reading.step, loss)
            if ADDED_LOSS in numbers:
                self.data_losses.add(reading.step, loss - numbers[ADDED_LOSS])
        for name, value in numbers.items():
            self.add_number(name, reading.step, value)

    def add_loss(self, step: int, value: float) -> None:
        """Add the loss of a step, measured or not."""
        self._advance(step)
        self._add_loss(step, value)

    def add_epoch(self, epoch: int, step: int, logs: Mapping[str, float]) -> None:
        """Add the logs of an epoch: `loss`, `val_loss`, ..."""
        self._advance(step)
        self.epochs.append(EpochLogs(epoch, step, dict(logs)))

    def add_metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Add what a loop has reported: `val_loss`, `accuracy`, ..."""
        self._cache = {}
        for name, value in values.items():
            series = self.metrics.setdefault(name, [])
            series.append((step, value))
            # Every other one of many is enough.
            if len(series) > _MOST_METRICS:
                del series[::2]

    def end(self) -> None:
        """The training has ended, for now."""
        self._cache = {}
        self.has_ended = True

    def add_samples(self, step: int, numbers: Mapping[str, float]) -> None:
        """Add what is known of the samples of a step's batch."""
        self.samples[step] = numbers
        if len(self.samples) > _KEPT_SAMPLES:
            del self.samples[next(iter(self.samples))]

    def add_number(self, name: str, step: int, value: float) -> None:
        """Add a number of the training itself, such as its `learning_rate`."""
        self._told[name] = step
        series = self.numbers.setdefault(name, [])
        if not series or series[-1][1] != value:
            series.append((step, value))
            # A schedule that changes it at every step must not fill the memory.
            del series[1 : max(len(series) - 1000, 1)]

    def is_warming_up(self) -> bool:
        """Whether the learning rate is rising, as at the start of some schedules."""
        series = self.numbers.get("learning_rate", [])
        if len(series) < 2 or series[-1][1] <= series[-2][1]:
            return False
        step, rate = series[-1]
        base = self.numbers.get("base_learning_rate")
        has_no_end = base is not None and base[-1][1] > _LONGEST_WARM_UP * rate
        return step == self._told["learning_rate"] and not has_no_end

    def cached_per_step(self, key: object, compute: Callable[[], T]) -> T:
        """The result of `compute`, which is called again only after something is added."""
        return cached(self._cache, key, compute)

    def _is_lagging(self) -> bool:
        """Whether a gradient is far above the root of its second moment, as never before."""
        if not self.is_fresh(Kind.NORMALIZED_GRADIENT) or len(self[Kind.NORMALIZED_GRADIENT]) < 2:
            return False
        table = self[Kind.NORMALIZED_GRADIENT]
        if not np.any(table.latest("rms") > _LAG):
            return False
        newest, before = table.newest_and_before("rms", 1)
        return bool(np.any((newest > _LAG) & (newest > before)))

    def _add_loss(self, step: int, value: float) -> None:
        self.losses.add(step, value)
        if self.part_losses is not self.losses:
            self.part_losses.add(step, value)

    def _advance(self, step: int) -> None:
        self._cache = {}
        self._has_new_bad = False
        self.has_ended = False
        self.first_step = self.first_step or step
        self.step = max(self.step, step)

    def _note_bad(self, rows: Array, is_finite: bool) -> None:
        """Note which rows of a reading are not finite."""
        bad: frozenset[int] = frozenset()
        if not is_finite:
            bad = frozenset(np.flatnonzero(rows[:, NONFINITE].any(axis=1)).tolist())
        self._has_new_bad, self._bad = not bad <= self._bad, bad

    def _sort_by_kind(self, sites: Sequence[Site]) -> None:
        rows: dict[Kind, list[int]] = {}
        for i, site in enumerate(sites):
            if not site.is_slice and site.kind not in (Kind.LOSS, Kind.SCALAR):
                rows.setdefault(site.kind, []).append(i)
        self._order = np.array([i for places in rows.values() for i in places], np.intp)
        self._parts, start = [], 0
        for kind, places in rows.items():
            end = start + len(places)
            self._parts.append((kind, [sites[i] for i in places], slice(start, end)))
            start = end
        self._bad = frozenset()
