"""Losses and metrics of runs over steps, epochs and time."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import VALUE, Kind
from gradwatch.read import RowGroups, Run, by_width, last_shown
from gradwatch.view.data.plain import Answer, doubles, whole
from gradwatch.view.data.run_view import RunView

CURVES = (Kind.LOSS, Kind.METRIC, Kind.EPOCH_METRIC)
MAX_CURVES = 200
"""The most curves of a run: nobody looks at more of them."""


def curves(several: Sequence[RunView], columns: int) -> Answer:
    """`CurvesData` of `types.ts`: of each run at most that many points of each curve."""
    return {"runs": [_of_run(view, columns) for view in several]}


def _of_run(view: RunView, columns: int) -> Answer:
    run = view.run
    made: list[Answer] = []
    epochs, times = _Epochs(run), _Times(run)
    for kind in CURVES:
        sites = run.sites(kind)[: MAX_CURVES - len(made)]
        if not sites:
            continue
        # Metrics of epochs are few, and each is shown at its step.
        bucketing = by_width(view.steps(kind), columns)
        rows = RowGroups.of([[site] for site in sites])
        table = run.row_table(kind, rows, [VALUE.name], bucketing, rank=view.rank)
        last = last_shown(run, kind, rows, VALUE.name, table, view.rank)
        for i, site in enumerate(sites):
            measured = table.steps[i] > 0
            steps = table.cell_last[i][measured].astype(np.int64)
            values = table.values[VALUE.name][i][measured]
            # The end of a curve is read as the run's last value, so it is not an average.
            values[-1:] = last[i]
            made.append(
                {
                    "kind": str(kind),
                    "path": site.path,
                    "step": whole(steps),
                    "epoch": doubles(epochs.at(steps)),
                    "time": doubles(times.at(steps)),
                    "values": doubles(values),
                }
            )
    return {"id": view.id, "name": view.name, "has_epochs": epochs.are_known, "curves": made}


class _Epochs:
    """How many epochs have passed at the end of a step: 1.5 in the middle of the second."""

    def __init__(self, run: Run) -> None:
        known = [epoch for epoch in run.epochs if epoch.number > 0]
        self.are_known = bool(known)
        self._first = np.array([epoch.first_step for epoch in known], np.int64)
        self._number = np.array([epoch.number for epoch in known], np.float64)
        ends = np.append(self._first[1:], known[-1].last_step + 1 if known else 0)[: len(known)]
        length = (ends - self._first).astype(np.float64)
        # The last one may not have ended: it is as long as the one before it.
        if len(known) > 1 and self._number[-1] == self._number[-2] + 1:
            length[-1] = max(length[-1], length[-2])
        self._length = np.maximum(length, 1.0)

    def at(self, steps: NDArray[np.int64]) -> NDArray[np.float64]:
        if not self.are_known:
            return np.full(steps.size, np.nan)
        place = np.maximum(np.searchsorted(self._first, steps, side="right") - 1, 0)
        share = (steps - self._first[place] + 1) / self._length[place]
        return self._number[place] - 1 + np.clip(share, 0.0, 1.0)


class _Times:
    """Seconds from the beginning of the run to a step."""

    def __init__(self, run: Run) -> None:
        self._steps, self._times = run.times()
        began = run.started
        self._began = began if began is not None else min(self._times, default=0.0)

    def at(self, steps: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray(self._times[np.searchsorted(self._steps, steps)] - self._began)
