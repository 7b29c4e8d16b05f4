"""A Keras training step on several replicas of one process: `tf.distribute.MirroredStrategy`.

Each replica runs the train step on its share of the batch: one after the other, as far as the
next place where all of them come together. So each has an `Observation` of its own, which notes
what that replica does and nothing else. At the end of the step they come together once more:
what is the same on all of them is measured on the first, and of what is not, the summaries are
merged. No gradient and no output moves between devices for it, and nothing is reduced again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import tensorflow as tf

from gradwatch.capture.keras.backends.carrier import Carrier
from gradwatch.capture.keras.backends.merging import SPREAD, Blocks, joined_tensor, merged_rows
from gradwatch.capture.keras.backends.reduction import reductions_tapped
from gradwatch.capture.keras.backends.tensorflow_backend import TensorFlowBackend
from gradwatch.capture.keras.observation import Observation
from gradwatch.capture.keras.optimizers import innermost
from gradwatch.capture.keras.output_watch import Row
from gradwatch.capture.readings import Layout
from gradwatch.capture.values import value_name, values_of
from gradwatch.core import CELLS, Kind, Site
from gradwatch.core.select import SelectionError
from gradwatch.watches import Plan

GRADIENTS = (Kind.GRADIENT, Kind.APPLIED_GRADIENT)


def replica_index() -> int | None:
    """The number of the replica that is running, in this process; None between them."""
    context = tf.distribute.get_replica_context()
    if context is None:
        return None
    # Not the public property, which adds a constant to the graph.
    return int(context._replica_id_in_sync_group)


class ReplicatedBackend(TensorFlowBackend):
    """TensorFlow, with a step that several replicas run.

    Args:
        model: the Keras model.
        strategy: of `tf.distribute`, with all its replicas in this process.
    """

    def __init__(self, model: Any, strategy: Any) -> None:
        super().__init__(model)
        self._strategy = strategy

    def observation(
        self,
        make: Callable[[Callable[[], bool] | None], Observation],
        require_plan: Callable[[], Plan],
    ) -> ReplicatedObservation:
        each = [
            make(lambda mine=index: replica_index() == mine)  # type: ignore[misc]
            for index in range(self._strategy.num_replicas_in_sync)
        ]
        return ReplicatedObservation(each, require_plan, self, self._strategy)

    def histograms_due(self) -> Any:
        """The flag, as a tensor."""
        return tf.convert_to_tensor(self._histograms_due)

    def wrap(self, train_step: Any, observation: Any) -> Any:
        def measured_train_step(data: Any) -> Any:
            # As in `watched`: all that is ours is called inside of a `try`, and the model's
            # step is run in any case, and once. All replicas must come to `merge_call`.
            try:
                observation.arrive(replica_index(), data)
            except Exception as error:
                observation.fault(error)
            try:
                logs = train_step(data)
                replica = tf.distribute.get_replica_context()
                measured = replica.merge_call(observation.finish)
            except BaseException:
                observation.leave()
                raise
            return {"logs": logs, "measured": measured}

        return measured_train_step


class ReplicatedObservation:
    """What happens to the watched tensors in a training step that several replicas run.

    Args:
        replicas: the observation of each.
        require_plan: gives the plan.
        backend: the tensors' own framework.
        strategy: runs the replicas.
    """

    def __init__(
        self,
        replicas: Sequence[Observation],
        require_plan: Callable[[], Plan],
        backend: ReplicatedBackend,
        strategy: Any,
    ) -> None:
        self._replicas = replicas
        self._first = replicas[0]
        self._require_plan = require_plan
        self._backend = backend
        self._devices = strategy.extended.worker_devices
        self.fault = self._first.fault
        self.layouts: list[Layout] = []
        """As of `Observation`."""
        self._taps = ExitStack()
        self._lock = threading.Lock()
        self._outside: Any = None
        self._is_watching = False
        self._reduced: dict[int, Any] = {}
        self._carriers: dict[int, tuple[Carrier, list[int]]] = {}

    @property
    def unseen(self) -> frozenset[Site]:
        """As of `Observation`."""
        return self._first.unseen

    def arrive(self, index: int | None, data: Any) -> None:
        """A replica begins the step; the first one comes first."""
        assert index is not None
        if index == 0:
            self._begin()
        self._replicas[index].give(data)

    def leave(self) -> None:
        """Let go of the optimizers and layers; called by any replica, or for all of them."""
        with self._lock:
            taps, self._taps = self._taps, ExitStack()
            self._is_watching = False
        taps.close()

    def finish(self, strategy: Any) -> dict[str, Any]:
        """When all replicas have run the step: its measurement, as of `Observation.measure`.

        Beside that, `replicas`: the summaries of the gradients of each.
        """
        try:
            was_watching = self._is_watching
            self.leave()
            if not was_watching:
                return {}
            with self._backend.aside():
                measured = self._measured(self._require_plan())
            self._backend.use_copies(())
            return measured
        except SelectionError:  # The user's to hear of.
            raise
        except Exception as error:
            self.fault(error)
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
            taps.enter_context(reductions_tapped(optimizers, self._note_reduced, self.fault))
            self._taps = taps.pop_all()
            self._is_watching = True

    def _note_reduced(self, optimizer: Any, pairs: list[tuple[Any, Any]]) -> None:
        if replica_index() != 0:
            return  # It is the same on all of them.
        variables = {id(v._value): v for v, _ in self._first.variables.values()}
        by_id = {id(variables[id(v)]): g for g, v in pairs if id(v) in variables}
        if self._backend.scope() is self._outside:
            self._reduced.update(by_id)
            return
        # In the branch of a loss scaling optimizer, out of which only the numbers come.
        plan = self._require_plan()
        carrier, positions = self._carriers[id(optimizer)]
        positions[:] = [
            i
            for i, site in enumerate(plan.sites)
            if site.kind in GRADIENTS and id(self._first.variables[site.path][0]) in by_id
        ]
        tensors = {i: self._sliced(plan.sites[i], by_id) for i in positions}
        rows, cells = self._summarized(plan, list(tensors.items()))
        carried = {"rows": rows} if cells is None else {"rows": rows, "cells": cells}
        wanted = {i: x for i, x in tensors.items() if i in plan.with_values}
        carried |= {value_name(i): self._backend.framework.copy(x) for i, x in wanted.items()}
        carrier.put(carried)

    def _sliced(self, site: Site, tensors: dict[int, Any]) -> Any:
        variable, columns = self._first.variables[site.path]
        x = tensors[id(variable)]
        return x if columns is None else x[..., columns[0] : columns[1]]

    def _summarized(self, plan: Plan, tensors: Sequence[tuple[int, Any]]) -> tuple[Any, Any]:
        """Summaries of tensors at positions of the plan, and cells of those that have them."""
        own = self._backend.framework
        every = [x for _, x in tensors]
        counted = [at for at, (i, _) in enumerate(tensors) if i in plan.with_histogram]
        if not counted:
            return own.measure(every)[0], None
        return own.measure(every, counted, self._backend.histograms_due())

    def _measured(self, plan: Plan) -> dict[str, Any]:
        carried = {i: carrier for carrier, at in self._carriers.values() for i in at}
        with tf.device(self._devices[0]):
            shared = self._first.rows_of_variables(plan, self._reduced)
        beside = []
        for replica, device in zip(self._replicas, self._devices, strict=True):
            with tf.device(device):
                beside.append(replica.rows_beside(plan))
        first = beside[0]
        if any([r[:2] for r in rows] != [r[:2] for r in first] for rows in beside):
            raise RuntimeError("the replicas have not run the same training step")
        layout_rows = sorted([*shared, *first], key=lambda row: row.position)
        place = {row.site: at for at, row in enumerate(layout_rows)}
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
                for row, *same in zip(first, *beside, strict=True)
                if row.site.kind not in SPREAD
            ]
            add(on_first, *self._summarized(plan, [(r.position, r.tensor) for r in on_first]))
        parts = []
        spread = [at for at, row in enumerate(first) if row.site.kind in SPREAD]
        for own_rows, device in zip(beside, self._devices, strict=True):
            if spread:
                with tf.device(device):
                    tensors = [(own_rows[at].position, own_rows[at].tensor) for at in spread]
                    parts.append(self._summarized(plan, tensors))
        with tf.device(self._devices[0]):
            if spread:
                tables, counts = zip(*parts, strict=True)
                both = None if counts[0] is None else tf.add_n(counts)
                add([first[at] for at in spread], merged_rows(tables), both)
            return self._result(plan, tuple(r[:2] for r in layout_rows), add, shared, rows, cells)

    def _result(
        self,
        plan: Plan,
        layout: Layout,
        add: Callable[[Sequence[Row], Any, Any], None],
        shared: Sequence[Row],
        rows: Blocks,
        cells: Blocks,
    ) -> dict[str, Any]:
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
        copy = self._backend.framework.copy
        result |= values_of(plan, lambda i: by_position[i].tensor, copy) | values
        if layout not in self.layouts:
            self.layouts.append(layout)
        result["layout"] = tf.constant(self.layouts.index(layout), tf.int32)
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
