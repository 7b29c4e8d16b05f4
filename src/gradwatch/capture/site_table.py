"""What the rows of a measurement stand for: an ordered table of sites."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from gradwatch.capture.errors import WrongValueError
from gradwatch.core import Site, Tensor, scope
from gradwatch.watches import Plan


class Row(NamedTuple):
    """A tensor to be measured."""

    position: int
    """Of the site in the plan that it belongs to."""
    site: Site
    """The site under which it is recorded; a layer that is called twice has two of them."""
    tensor: Tensor
    """The tensor, or the place of its row if it has been measured already."""


@dataclass(frozen=True, eq=False)
class SiteTable:
    """The sites of the rows of a measurement.

    Measurements carry `number` with them, so that the table is found again. `rows` has for each row
    its position in the plan's sites, and its own site. `selections` has the rows that go into a
    reading, by the things that are due; see `readings`.
    """

    number: int
    plan: Plan
    rows: tuple[tuple[int, Site], ...]
    group: str = ""
    micro_batch: int | None = None
    selections: dict[Any, Any] = field(default_factory=dict, init=False)

    @property
    def prefix(self) -> str:
        """The first part of all paths; empty without a group or micro-batch."""
        return scope(self.group, self.micro_batch)

    @cached_property
    def with_cells(self) -> list[int]:
        """The rows that have a histogram, ascending."""
        counted = self.plan.with_histogram
        return [row for row, (position, _) in enumerate(self.rows) if position in counted]


# Unique in this process: measurements of another monitor are never mistaken for own ones.
_numbers = itertools.count(1)


class SiteTables:
    """The tables of a monitor, each made once."""

    def __init__(self) -> None:
        self._tables: dict[int, SiteTable] = {}
        self._adopted: tuple[SiteTables, Plan] | None = None

    def adopt(self, others: SiteTables, plan: Plan) -> None:
        """Take over the tables of a step that another monitor compiled, with a plan of the same
        sites; also those that are made later."""
        self._adopted = others, plan

    def table(
        self,
        plan: Plan,
        rows: Iterable[tuple[int, Site]],
        group: str = "",
        micro_batch: int | None = None,
    ) -> SiteTable:
        """The table of these rows; always the same object for the same rows."""
        rows = tuple(rows)
        for table in tuple(self._tables.values()):
            # Sites are the same objects at every step, so that this is quick.
            if (
                table.plan is plan
                and (table.group, table.micro_batch) == (group, micro_batch)
                and table.rows == rows
            ):
                return table
        table = SiteTable(next(_numbers), plan, rows, group, micro_batch)
        self._tables[table.number] = table
        return table

    def numbered(self, number: int) -> SiteTable:
        """The table of that number; raises ValueError if this monitor has none."""
        if number not in self._tables and self._adopted is not None:
            others, plan = self._adopted
            known = others.numbered(number)
            self._tables[number] = SiteTable(
                number, plan, known.rows, known.group, known.micro_batch
            )
        if number not in self._tables:
            raise WrongValueError("These readings were measured by another monitor.")
        return self._tables[number]
