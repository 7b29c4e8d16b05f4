"""Carrying whole tensors out of a step, for the probes that want their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gradwatch.core import Reading, Site, Summary
from gradwatch.watches import Due, Plan

PREFIX = "value_"


def value_name(position: int) -> str:
    """The name, among what was measured, of a site's values."""
    return f"{PREFIX}{position}"


def is_value(name: str) -> bool:
    """Whether it is the name of a site's values."""
    return name.startswith(PREFIX)


def values_of(
    plan: Plan, tensor_at: Callable[[int], Any], copy: Callable[[Any], Any]
) -> dict[str, Any]:
    """The tensors that probes want, as copies on the device, by their names.

    They leave the step each time it is measured, and the device when they are due.
    """
    tensors = {i: tensor_at(i) for i in plan.with_values}
    return {value_name(i): copy(x) for i, x in tensors.items() if x is not None}


def names_due(due: Due, measured: Mapping[str, Any]) -> list[str]:
    """The names of the values that are due, of those that there are."""
    names = dict.fromkeys(value_name(i) for _, i in due.probes)
    return [name for name in names if name in measured]


def probed(reading: Reading, plan: Plan, due: Due, arrays: Mapping[str, Any]) -> Reading:
    """The reading with what the probes make of the values that have arrived."""
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
