"""Runs made of known arrays, and what is true of them by NumPy in float64."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gradwatch.core import Kind, Reading, Site, Summary
from gradwatch.core.reference import count_cells, summarize
from gradwatch.store import sealing
from gradwatch.store.writer import StoreWriter

LAYERS = ("net/conv1", "net/conv2", "net/dense")
SITES = [
    Site(kind, f"{layer}/{part}")
    for layer in LAYERS
    for part in ("kernel", "bias")
    for kind in (Kind.WEIGHT, Kind.GRADIENT, Kind.UPDATE)
]


def array(site: Site, step: int, attempt: int = 0, rank: int = 0, part: int = 0) -> np.ndarray:
    """The tensor of a site at a step, always the same one; now and then it is not finite."""
    seed = [
        step,
        attempt,
        rank,
        part,
        *site.path.encode("utf-8", "surrogatepass"),
        *site.kind.encode(),
    ]
    rng = np.random.default_rng(seed)
    values = rng.normal(size=24).astype(np.float32)
    values[0] = 0.0
    if step % 7 == 3:
        values[1:4] = np.nan, np.inf, -np.inf
    if step % 11 == 5:
        values[:] = np.nan
    return values


@dataclass
class Recorder:
    """Writes readings of `array` into a run."""

    directory: Path
    rows_a_journal: int = 100
    first_step: int = 1
    rank: int = 0
    attempt: int = 0
    sites: list[Site] = field(default_factory=lambda: list(SITES))

    def __post_init__(self) -> None:
        self.writer = StoreWriter(
            self.directory, self.first_step, self.rank, rows_a_journal=self.rows_a_journal
        )

    def write(
        self,
        steps: Iterable[int],
        *,
        histograms: bool = False,
        group: str = "",
        micro_batch: int | None = None,
        members: Mapping[str, list[int]] | None = None,
    ) -> Recorder:
        part = 0 if micro_batch is None else 1 + micro_batch
        for step in steps:
            arrays = [array(s, step, self.attempt, self.rank, part) for s in self.sites]
            loss = Site(Kind.LOSS, "loss")
            rows = np.array([*map(summarize, arrays), summarize(loss_at(step))])
            cells = {i: count_cells(a) for i, a in enumerate(arrays)} if histograms else {}
            self.writer.write(
                Reading(
                    step,
                    1 + (step - 1) // 10,
                    1.7e9 + step,
                    [*self.sites, loss],
                    Summary.unpack(rows),
                    cells,
                    group,
                    micro_batch,
                    members or {},
                )
            )
        return self

    def close(self, *, seal: bool = True) -> None:
        self.writer.close()
        if seal:
            settle()


def settle() -> None:
    """Have the background do now what it would do a little later."""
    deadline = time.monotonic() + 60
    assert sealing.syncer.finish(deadline)
    assert sealing.sealer.finish(deadline)


def loss_at(step: int) -> np.ndarray:
    return np.array(np.nan if step == 13 else 1.0 / step, np.float32)
