"""Running steps again on TensorFlow, where a step changes variables in place."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf

from gradwatch.capture.keras.again.rerunner import Finite, Note, Rerunner
from gradwatch.capture.keras.again.user_errors import UserErrors
from gradwatch.capture.keras.backends.tensorflow_backend import TensorFlowBackend
from gradwatch.capture.keras.backends.tensorflow_random import is_seeded, stateful_operations
from gradwatch.core import KerasModel

_EFFECTS = ("PyFunc", "EagerPyFunc", "Print", "PrintV2")
"""Operations that do something outside of the step."""


class _NotedFunction:
    """Keras's function of an iterator, so that it also returns the batch.

    Keras takes the batch inside its outer function, and calls the inner one on it, which is
    compiled. Here is another outer function around the same inner one.
    """

    def __init__(self, function: Any, note: Note) -> None:
        self._function = function
        self._note = note

        def noted(iterator: Any) -> Any:
            batch = iterator.get_next()
            # Given an iterator of Python, Keras calls the inner function.
            return function(iter([batch])), batch

        self._noted = tf.function(noted, reduce_retracing=True, autograph=False)

    def __call__(self, iterator: Any) -> Any:
        if not isinstance(iterator, tf.data.Iterator):
            return self._function(iterator)
        result, batch = self._noted(iterator)
        with suppress(Exception):  # It reports its own.
            self._note((iterator.element_spec, batch))
        return result

    def graph_for(self, iterator: Any) -> Any:
        """What is run for an iterator, traced if it has not been."""
        return self._noted.get_concrete_function(iterator)


def _is_finite(x: Any) -> bool:
    return bool(np.isfinite(x.numpy()).all())


class TensorFlowRerunner(Rerunner):
    """The state is the values of all variables that the step uses.

    A batch is kept together with the specification that the step was traced for.
    """

    def __init__(self, model: KerasModel, backend: TensorFlowBackend, errors: UserErrors) -> None:
        self._errors = errors
        self._model = model
        self._backend = backend
        self.device = "gpu" if tf.config.list_logical_devices("GPU") else "cpu"
        self._variables: list[Any] = []
        self._known: Any = None
        self._read: Any = None
        self._of_batch: dict[Any, Any] = {}

    def noting(self, function: Any, note: Note) -> Any:
        return _NotedFunction(self._errors.noted(function), note)

    def copy_state(self, function: Any, args: Any) -> tuple[Any, Finite] | None:
        (iterator,) = args
        if not isinstance(iterator, tf.data.Iterator):
            return None
        if iterator.element_spec != self._known:
            graph = function.graph_for(iterator)
            variables = list(graph.variables)
            if is_more_than_variables(graph, variables):
                return None
            self._known, self._variables = iterator.element_spec, variables
            self._read = tf.function(self._copy_and_check, autograph=False)
        if self.device == "cpu":
            # To trace a function of all variables takes longer than many copies.
            state = self._copy()
            return state, cache(lambda: tuple(map(_is_finite, self._floats(state))))
        state, finite = self._read()
        return state, lambda: tuple(map(bool, finite))

    def _copy(self) -> list[Any]:
        # Reading shares the memory until the variable changes, and then that is copied.
        return [variable.read_value() for variable in self._variables]

    def _floats(self, state: list[Any]) -> list[Any]:
        """The variables that are floats, but those of metrics."""
        metrics = {id(variable.value) for variable in self._model.metrics_variables}
        own = [x for v, x in zip(self._variables, state, strict=True) if id(v) not in metrics]
        return [x for x in own if x.dtype.is_floating]

    def _copy_and_check(self) -> tuple[list[Any], list[Any]]:
        state = self._copy()
        return state, [tf.reduce_all(tf.math.is_finite(x)) for x in self._floats(state)]

    def size(self, state: Any) -> int:
        return sum(value.dtype.size * value.shape.num_elements() for value in state)

    def run(self, function: Any, state: Any, batch: Any) -> tuple[Any, Any]:
        self._assign(state)
        self._backend.arguments((), histograms_due=False)
        specification, tensors = batch
        key = id(function), id(specification)
        if key not in self._of_batch:
            self._of_batch[key] = of_batch(function, specification), function, specification
        result = self._of_batch[key][0](tensors)
        return result["measured"], [variable.read_value() for variable in self._variables]

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        values = [variable.read_value() for variable in self._variables]
        try:
            yield
        finally:
            self._assign(values)
            self._of_batch.clear()

    def _assign(self, values: Any) -> None:
        for variable, value in zip(self._variables, values, strict=True):
            variable.assign(value)


def of_batch(function: Any, specification: Any) -> Any:
    """A function of a batch, from one of an iterator; the inner one is not traced again."""

    def on_batch(batch: Any) -> Any:
        return function(iter([batch]))

    return tf.function(on_batch, input_signature=[specification], autograph=False)


def is_more_than_variables(graph: Any, variables: list[Any]) -> bool:
    """Whether a step keeps state elsewhere, or does something that is not to be repeated."""
    known = {id(variable.handle) for variable in variables}
    resources = [x for x in graph.captured_inputs if x.dtype == tf.resource]
    return any(id(resource) not in known for resource in resources) or any(
        operation.type in _EFFECTS or is_seeded(operation)
        for operation in stateful_operations(graph.graph)
    )
