"""Compiling a train function ahead of its call on TensorFlow."""

import time
from collections.abc import Callable, Hashable
from typing import Any

import tensorflow as tf

from gradwatch.capture.keras.again import StepKeeper
from gradwatch.capture.keras.again.tensorflow_rerunner import is_more_than_variables, of_batch
from gradwatch.capture.keras.ahead.tracer import Taken, Tracer
from gradwatch.capture.keras.backends.tensorflow_random import is_seeded, stateful_operations
from gradwatch.capture.keras.backends.wrapped_step import RefusedError
from gradwatch.capture.keras.optimizers import build_optimizer
from gradwatch.core import KerasModel

MOST_STATE = 1 << 30
"""Bytes of variables, of which there is a copy while the step is compiled."""

_ON_BATCH = "_gradwatch_on_batch"
"""An attribute of a train function: the same as functions of a batch, by its kind."""


class TensorFlowTracer(Tracer):
    """XLA compiles what it is to run, so the thread runs the function once, on other variables.

    Not on a GPU: there a second step may need the memory that training needs.
    """

    def __init__(self, model: KerasModel, keeper: StepKeeper, is_graph: bool) -> None:
        self._model = model
        self._keeper = keeper
        self._is_graph = is_graph
        self.way = "tensorflow graph" if is_graph else "tensorflow"
        self._suits: dict[Hashable, bool] = {}

    def suits(self, function: Any, args: Any) -> bool:
        build_optimizer(self._model)
        if not self._is_graph:
            return True
        (iterator,) = args
        specification = iterator.element_spec
        key = function, _hashable(specification)
        if key not in self._suits:
            # Random numbers with a state in the function would go on in this one from where they
            # were in the model's own.
            began = time.thread_time()
            on_batch = self.on_batch(function, Taken(None, None, specification))
            try:
                operations = stateful_operations(on_batch.get_concrete_function().graph)
                self._suits[key] = not any(map(is_seeded, operations))
            except RefusedError:
                self._suits[key] = False
            self.seconds += time.thread_time() - began
        return self._suits[key]

    def take(self, args: Any) -> Taken:
        (iterator,) = args
        optional = iterator.get_next_as_optional()
        if not optional.has_value():
            raise StopIteration
        taken = Taken(None, optional.get_value(), iterator.element_spec)
        self._keeper.note((taken.specification, taken.batch))
        return taken

    def arguments(self, taken: Taken) -> Any:
        return (taken.batch,)

    def on_batch(self, function: Any, taken: Taken) -> Any:
        known = vars(function).setdefault(_ON_BATCH, {})
        key = _hashable(taken.specification)
        if key not in known:
            known[key] = of_batch(self._keeper.errors.noted(function), taken.specification)
        return known[key]

    def kind_of(self, args: Any) -> Hashable:
        return _hashable(args)

    def trace(self, function: Any, args: Any) -> Callable[[], object] | None:
        concrete = function.get_concrete_function()
        variables = list(concrete.variables)
        size = sum(v.dtype.size * (v.shape.num_elements() or 0) for v in variables)
        if size > MOST_STATE or tf.config.list_logical_devices("GPU"):
            return None
        if is_more_than_variables(concrete, variables):
            return None
        inputs = tf.nest.flatten(args, expand_composites=True)

        def run_on_copies() -> None:
            copies = {id(v.handle): tf.Variable(v, trainable=False) for v in variables}
            captured = [
                copies[id(x)].handle if id(x) in copies else x for x in concrete.captured_inputs
            ]
            concrete._call_flat([x for x in inputs if x is not None], captured)

        return run_on_copies


def _hashable(structure: Any) -> Hashable:
    leaves = tf.nest.flatten(structure, expand_composites=True)
    kinds = tuple((x.shape.as_list(), x.dtype.name) for x in leaves if x is not None)
    return repr((tf.nest.map_structure(lambda _: 0, structure), kinds))
