"""Measurements of a step that are made at several times, put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from gradwatch.capture.site_table import SiteTable
from gradwatch.measure.torch import numbers_on


@dataclass
class Part:
    """The measurements of some of a table's rows, by their places among them."""

    places: list[int]
    rows: Any
    with_histogram: list[int]
    cells: Any
    values: dict[str, Any]
    """Of sites that a probe looks at, see `capture.values`."""


def together(parts: Sequence[Part]) -> dict[str, Any]:
    """The arrays of all parts, in the order of the table's rows."""
    arrays = {
        "rows": _in_order([p.places for p in parts], [p.rows for p in parts]),
        "cells": _in_order([p.with_histogram for p in parts], [p.cells for p in parts]),
    }
    return arrays | {name: x for part in parts for name, x in part.values.items()}


class Subtables:
    """Tables of only some rows of others; the same one for the same rows."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, tuple[int, ...]], SiteTable] = {}

    def of(self, table: SiteTable, parts: Sequence[Part]) -> SiteTable:
        """The table of the rows that the parts have."""
        places = tuple(sorted(place for part in parts for place in part.places))
        if len(places) == len(table.rows):
            return table
        key = table.number, places
        if key not in self._known:
            self._known[key] = replace(table, rows=tuple(table.rows[i] for i in places))
        return self._known[key]


def _in_order(positions: Sequence[list[int]], parts: Sequence[Any]) -> Any:
    """The rows of the parts, put together in the order of their positions."""
    flat = [i for each in positions for i in each]
    kept = [part[: len(each)] for each, part in zip(positions, parts, strict=True) if each]
    if not kept:
        return parts[0][:0]
    device = kept[0].device
    order = tuple(sorted(range(len(flat)), key=flat.__getitem__))
    return torch.cat([part.to(device) for part in kept])[numbers_on(device, order)]
