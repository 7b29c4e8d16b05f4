"""A recorded run: all its readings in one file, beside the run's own directory.

`trace.npz` holds what the monitor measured as one array (step, site, number), and what
a monitor in `fit` is also told: the loss of each step, the learning rate, summaries of the inputs
and targets, and what epochs ended with.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import FIELDS, Kind, Reading, Site, Summary

from .catalog import catalog
from .labels import describe

Array = NDArray[Any]


@dataclass
class Trace:
    """A recorded run.

    Attributes:
        label: what is known of the program, and how it came out; see `label.json`.
        facts: of the model, for `gradwatch.diagnose.ModelFacts.from_json`.
        sites: what was measured, in the order of the rows.
        rows: packed summaries by step and site; NaN where a site was not measured.
        steps: the number of each measured step.
        losses: of each step, from step 1.
        rates: the learning rate of each step, from step 1.
        scales: the loss scale of each step, from step 1; NaN without one.
        groups: the part of the training that each site is of; mostly empty.
        epochs: what each epoch ended with: its last `step`, `loss`, `val_loss`.
    """

    label: dict[str, Any]
    facts: dict[str, Any]
    sites: Sequence[Site]
    rows: Array
    steps: Array
    losses: Array
    rates: Array
    scales: Array
    groups: Sequence[str]
    epochs: list[dict[str, float]]

    def values(self, kind: Kind) -> tuple[list[str], Summary]:
        """The paths of a kind, and their summaries by step and path; slices are left out."""
        chosen = [i for i, s in enumerate(self.sites) if s.kind is kind and not s.is_slice]
        return [self.sites[i].path for i in chosen], Summary.unpack(self.rows[:, chosen])

    @cached_property
    def readings(self) -> list[Reading]:
        """As the monitor's sinks were given them; those of the whole model have the loss too."""
        made = []
        for i, step in enumerate(self.steps.tolist()):
            epoch = 1 + sum(step > each["step"] for each in self.epochs)
            for group in dict.fromkeys(self.groups):
                there = [
                    j for j, (row, own) in enumerate(zip(self.rows[i], self.groups, strict=True))
                    if own == group and not np.isnan(row[0])
                ]  # fmt: skip
                rows, sites = [*self.rows[i, there]], [self.sites[j] for j in there]
                if not group and not any(site.kind is Kind.LOSS for site in sites):
                    rows.append(Summary.of(self.losses[step - 1 : step]).pack())
                    sites.append(Site(Kind.LOSS, "loss"))
                if sites:
                    numbers = Summary.unpack(np.stack(rows))
                    made.append(Reading(step, epoch, float(step), sites, numbers, group=group))
        return made


@dataclass
class Told:
    """What is known of a run beside the monitor's readings: by step, but for `epochs`."""

    losses: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)
    epochs: list[dict[str, float]] = field(default_factory=list)


def save(folder: Path, readings: Sequence[Reading], told: Told, facts: dict[str, Any]) -> None:
    """Write a run's numbers into its folder; the label is written beside them at the end."""
    by_step: dict[int, dict[tuple[str, Site], Array]] = {}
    for reading in readings:
        keys = [(reading.group, site) for site in reading.sites]
        # Of micro-batches, the last one stands for the step.
        found = by_step.setdefault(reading.step, {})
        found.update(zip(keys, reading.summary.pack(), strict=True))
    keys = list(dict.fromkeys(key for found in by_step.values() for key in found))
    place = {key: i for i, key in enumerate(keys)}
    rows = np.full((len(by_step), len(keys), len(FIELDS)), np.nan)
    for i, found in enumerate(by_step.values()):
        for key, row in found.items():
            rows[i, place[key]] = row
    np.savez_compressed(
        folder / "trace.npz",
        rows=rows,
        steps=np.array(list(by_step), np.int64),
        groups=np.array([group for group, _ in keys]),
        kinds=np.array([str(site.kind) for _, site in keys]),
        paths=np.array([site.path for _, site in keys]),
        losses=np.array(told.losses, np.float64),
        rates=np.array(told.rates, np.float64),
        scales=np.array(told.scales, np.float64),
    )
    known = {"facts": facts, "epochs": told.epochs}
    (folder / "told.json").write_text(json.dumps(known, indent=1))


def load(folder: Path) -> Trace:
    """A run that `save` has written."""
    with np.load(folder / "trace.npz") as found:
        arrays = {name: found[name] for name in found.files}
    known = json.loads((folder / "told.json").read_text())
    pairs = zip(arrays["kinds"].tolist(), arrays["paths"].tolist(), strict=True)
    return Trace(
        label=json.loads((folder / "label.json").read_text()),
        facts=known["facts"],
        sites=[Site(Kind(kind), path) for kind, path in pairs],
        rows=arrays["rows"],
        steps=arrays["steps"],
        losses=arrays["losses"],
        rates=arrays["rates"],
        scales=arrays.get("scales", np.full(len(arrays["losses"]), np.nan)),
        groups=arrays["groups"].tolist() if "groups" in arrays else [""] * len(arrays["paths"]),
        epochs=known["epochs"],
    )


def load_all(folder: Path) -> Iterator[Trace]:
    """All confirmed runs below a folder, by name, as the tables describe their programs now."""
    programs = catalog()
    for file in sorted(folder.glob("*/label.json")):
        label = json.loads(file.read_text())
        if label["confirmed"] and label["program"] in programs:
            trace = load(file.parent)
            trace.label |= describe(programs[label["program"]])
            yield trace
