"""Observes a training step that several replicas of one process run.

Each replica runs the train step on its share of the batch: one after the other, as far as the
next place where all of them come together. So each has an `Observation` of its own, which notes
nothing but that replica's tensors. At the end of the step the replicas come together once more:
tensors that are the same on all of them are measured on the first; of the others, the summaries
are merged. No gradient and no output moves between devices for it, and nothing is reduced again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from gradwatch.capture.keras.backends.carrier import Carrier
from gradwatch.capture.keras.backends.merging import SPREAD, Blocks, joined_tensor, merged_rows
from gradwatch.capture.keras.observation import Observation
from gradwatch.capture.keras.optimizers import innermost
from gradwatch.capture.reductions import reductions
from gradwatch.capture.replicas import replica_index
from gradwatch.capture.site_table import Row, SiteTable
from gradwatch.capture.values import value_name, values_of
from gradwatch.core import CELLS, KerasOptimizer, Kind, SelectionError, Site, Tensor
from gradwatch.watches import Plan

if TYPE_CHECKING:
    from gradwatch.capture.keras.backends.mirrored_backend import MirroredBackend

GRADIENTS = (Kind.GRADIENT, Kind.APPLIED_GRADIENT)


class MirroredObservation:
    """Finds and measures the watched tensors in a training step that several replicas run."""

    def __init__(self, replicas: Sequence[Observation], backend: MirroredBackend) -> None:
        self._replicas = replicas
        self._first = replicas[0]
        self._backend = backend
        self._devices = backend.devices
        self.reporter = self._first.reporter
        self.coverage = self._first.coverage
        self._taps = ExitStack()
        self._lock = threading.Lock()
        self._outside: Any = None
        self._is_watching = False
        self._reduced: dict[int, Tensor] = {}
        self._carriers: dict[int, tuple[Carrier, list[int]]] = {}

    def arrive(self, index: int | None, data: Any) -> None:
        """A replica begins the step; the first one comes first."""
        assert index is not None
        if index == 0:
            self._begin()
        self._replicas[index].give(data)

    def leave(self) -> None:
        """Remove the taps; called by any replica, or for all of them."""
        with self._lock:
            taps, self._taps = self._taps, ExitStack()
            self._is_watching = False
        taps.close()

    def finish(self, strategy: Any) -> dict[str, Any]:
        """When all replicas have run the step: its measurement, as of `Observation.measure`.

        It also has `replicas`: the summaries of the gradients of each.
        """
        try:
            was_watching = self._is_watching
            self.leave()
            if not was_watching:
                return {}
            with self._backend.aside():
                measured = self._measured(self._first.plan.require())
            self._backend.use_copies(())
            return measured
        except SelectionError:  # Raised to the user.
            raise
        except Exception as error:
            self.reporter.internal_error(error, "measuring the replicas of a step", "that step")
            return {}

    def _begin(self) -> None:
        self.leave()
        self._reduced = {}
        self._outside = self._backend.scope()
        for carrier, _ in self._carriers.values():
            carrier.clear()
        optimizers = self._first.optimizers
        for optimizer in optimizers:
            if optimizer is not innermost(optimizer) and id(optimizer) not in self._carriers:
                self._carriers[id(optimizer)] = carrier, _ = Carrier(self._devices[0]), []
                carrier.clear()
        with ExitStack() as taps:
            for replica in self._replicas:
                taps.enter_context(replica.watching())
            for optimizer in optimizers:
                note = partial(self._note_reduced, optimizer)
                taps.enter_context(reductions(innermost(optimizer), note, self.reporter))
            self._taps = taps.pop_all()
            self._is_watching = True

    def _note_reduced(self, optimizer: KerasOptimizer, pairs: list[tuple[Tensor, Any]]) -> None:
        if replica_index() != 0:
            return  # It is the same on all of them.
        variables = {id(v._value): v for v, _ in self._first.variables.values()}
        by_id = {id(variables[id(v)]): g for g, v in pairs if id(v) in variables}
        if self._backend.scope() is self._outside:
            self._reduced.update(by_id)
            return
        # In the branch of a loss scaling optimizer, out of which only the numbers come.
        plan = self._first.plan.require()
        carrier, positions = self._carriers[id(optimizer)]
        positions[:] = [
            i
            for i, site in enumerate(plan.sites)
            if site.kind in GRADIENTS and id(self._first.variables[site.path][0]) in by_id
        ]
        tensors = {i: self._sliced(plan.sites[i], by_id) for i in positions}
        sites = [Row(i, plan.sites[i], x) for i, x in tensors.items()]
        rows, cells = self._summarized(plan, sites)
        carried = {"rows": rows} if cells is None else {"rows": rows, "cells": cells}
        wanted = {i: x for i, x in tensors.items() if i in plan.with_values}
        carried |= {value_name(i): self._backend.framework.copy(x) for i, x in wanted.items()}
        carrier.put(carried)

    def _sliced(self, site: Site, tensors: dict[int, Tensor]) -> Tensor:
        variable, columns = self._first.variables[site.path]
        x = tensors[id(variable)]
        return x if columns is None else x[..., columns[0] : columns[1]]

    def _summarized(self, plan: Plan, rows: Sequence[Row]) -> tuple[Any, Any]:
        """Summaries of tensors, and cells of those that have a histogram."""
        own = self._backend.framework
        every = [row.tensor for row in rows]
        counted = [at for at, row in enumerate(rows) if row.position in plan.with_histogram]
        if not counted:
            return own.measure(every)[0], None
        return own.measure(every, counted, self._backend.histograms_due())

    def _measured(self, plan: Plan) -> dict[str, Any]:
        carried = {i: carrier for carrier, at in self._carriers.values() for i in at}
        with tf.device(self._devices[0]):
            shared = self._first.rows_of_variables(plan, self._reduced)
        others = []
        for replica, device in zip(self._replicas, self._devices, strict=True):
            with tf.device(device):
                others.append(replica.other_rows(plan))
        first = others[0]
        if any([r[:2] for r in rows] != [r[:2] for r in first] for rows in others):
            raise RuntimeError("the replicas have not run the same training step")
        in_order = sorted([*shared, *first], key=lambda row: row.position)
        table = self._first.table(plan, in_order)
        place = {site: at for at, (_, site) in enumerate(table.rows)}
        rows, cells = Blocks(), Blocks()

        def add(which: Sequence[Row], table: Any, counts: Any) -> None:
            rows.add([place[row.site] for row in which], table)
            if counts is not None:
                counted = [row for row in which if row.position in plan.with_histogram]
                cells.add([place[row.site] for row in counted], counts)

        with tf.device(self._devices[0]):
            on_first = [row for row in shared if row.position not in carried]
            on_first += [
                row._replace(tensor=joined_tensor(same))
                for row, *same in zip(first, *others, strict=True)
                if row.site.kind not in SPREAD
            ]
            add(on_first, *self._summarized(plan, on_first))
        parts = []
        spread = [at for at, row in enumerate(first) if row.site.kind in SPREAD]
        for own_rows, device in zip(others, self._devices, strict=True):
            if spread:
                with tf.device(device):
                    parts.append(self._summarized(plan, [own_rows[at] for at in spread]))
        with tf.device(self._devices[0]):
            if spread:
                tables, counts = zip(*parts, strict=True)
                both = None if counts[0] is None else tf.add_n(counts)
                add([first[at] for at in spread], merged_rows(tables), both)
            return self._result(table, add, shared, rows, cells)

    def _result(
        self,
        table: SiteTable,
        add: Callable[[Sequence[Row], Any, Any], None],
        shared: Sequence[Row],
        rows: Blocks,
        cells: Blocks,
    ) -> dict[str, Any]:
        plan = table.plan
        by_position = {row.position: row for row in shared}
        exists: dict[int, Any] = {}
        values: dict[str, Any] = {}
        for carrier, positions in self._carriers.values():
            if positions:
                taken = carrier.take()
                add(
                    [by_position[i] for i in positions], taken.pop("rows"), taken.pop("cells", None)
                )
                values |= taken
                exists |= dict.fromkeys(positions, carrier.is_full())
            elif not self._reduced:
                # Run eagerly, a step that loss scaling skips reduces nothing at all.
                skipped = [i for i, s in enumerate(plan.sites) if s.kind in GRADIENTS]
                exists |= dict.fromkeys(skipped, tf.constant(False))
        result = {"rows": rows.together()}
        if plan.with_histogram:
            counts = cells.together()
            result["cells"] = tf.zeros((0, CELLS), tf.int64) if counts is None else counts
        if exists:
            yes = tf.constant(True)
            result["updates"] = tf.stack([exists.get(i, yes) for i in range(len(plan.sites))])
        own = self._backend.framework
        result |= values_of(plan, shared, own.copy) | values
        result["table"] = own.constant(table.number)
        if plan.per_replica:
            result["replicas"] = self._of_each_replica(plan)
        return result

    def _of_each_replica(self, plan: Plan) -> Any:
        sites = [plan.sites[i] for i in plan.per_replica]
        tables = []
        for replica, device in zip(self._replicas, self._devices, strict=True):
            with tf.device(device):
                tables.append(self._backend.framework.measure(replica.own_gradients(sites))[0])
        return tf.stack(tables)
