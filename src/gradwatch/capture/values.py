"""Whole tensors that leave a step, for the probes that look at their values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradwatch.capture.site_table import Row
from gradwatch.capture.tap_tables import tap_names
from gradwatch.core import Reading, Site, Summary, Tensor
from gradwatch.watches import Due, Plan

PREFIX = "value_"


def value_name(position: int) -> str:
    """The name, among the arrays of a measurement, of the values of a plan's site."""
    return f"{PREFIX}{position}"


def is_value(name: str) -> bool:
    return name.startswith(PREFIX)


def values_of(
    plan: Plan, rows: Sequence[Row], copy: Callable[[Tensor], Tensor]
) -> dict[str, Tensor]:
    """The tensors that probes need, as copies on the device, by their names.

    They leave the step each time it is measured, and the device when they are due.
    """
    if not plan.with_values:
        return {}
    tensors = {row.position: row.tensor for row in rows}
    wanted = {i: tensors.get(i) for i in plan.with_values}
    return {value_name(i): copy(x) for i, x in wanted.items() if x is not None}


def names_due(due: Due, arrays: Mapping[str, Any]) -> list[str]:
    """The names of the arrays that are needed for what is due, of those that there are."""
    names = ["rows", "table", "updates", *(["cells"] if due.histograms else [])]
    names += dict.fromkeys(value_name(i) for _, i in due.probes)
    return [*(name for name in names if name in arrays), *tap_names(arrays)]


def probed(reading: Reading, plan: Plan, due: Due, arrays: Mapping[str, Any]) -> Reading:
    """The reading with the results of the probes whose values have arrived."""
    measured: dict[Site, Any] = {}
    pictures: dict[Site, Any] = {}
    for probe, i in due.probes:
        if value_name(i) not in arrays:
            continue
        info = plan.info(i)
        owners = [type(owner).__name__ for owner in info.owners]
        result = probe(info.path, owners, np.asarray(arrays[value_name(i)], np.float64))
        if probe.kind is None:
            pictures[info.site] = result
        else:
            measured[Site(probe.kind, info.path)] = Summary.of(result).pack()[None]
    if not measured and not pictures:
        return reading
    return replace(
        reading,
        sites=[*reading.sites, *measured],
        summary=Summary.unpack(np.concatenate([reading.summary.pack(), *measured.values()])),
        pictures=pictures,
    )
