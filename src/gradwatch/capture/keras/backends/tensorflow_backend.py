"""A Keras training step on TensorFlow."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import tensorflow as tf

from gradwatch.capture.keras.backends.keras_backend import KerasBackend
from gradwatch.capture.keras.backends.tensorflow_random import holds_random_state
from gradwatch.capture.keras.backends.wrapped_step import RefusedError, watched
from gradwatch.core import KerasModel
from gradwatch.measure import framework


class TensorFlowBackend(KerasBackend):
    """The step is a function of the batch; the function built from it, of an iterator."""

    framework = framework("tensorflow")

    def __init__(self, model: KerasModel) -> None:
        self._is_graph = not (model.run_eagerly or model.jit_compile)
        # Read by the compiled step. It is no part of any model or checkpoint.
        self._histograms_due = tf.Variable(False, trainable=False, name="gradwatch_histograms_due")

    def compiles(self, model: KerasModel) -> bool:
        return True  # With XLA, or a graph.

    def wrap(self, train_step: Any, observation: Any) -> Any:
        def measure(due: None, result: Any) -> Any:
            if self._is_graph and holds_random_state():
                self.holds_random_state = True
                if self.own_step_has_run:
                    raise RefusedError
            with self.aside():
                observation.note_logs(result)
                measured = observation.measure(tf.convert_to_tensor(self._histograms_due))
            self.use_copies(result)
            return measured

        return watched(train_step, observation, measure, has_state=False)

    def arguments(self, args: Any, histograms_due: bool) -> Any:
        self._histograms_due.assign(histograms_due)
        return args

    def one_batch(self, args: Any) -> Any:
        # A compiled single step may advance the optimizer's counter before it finds
        # that there is no batch. Keras's loop over several looks first; so here too.
        (iterator,) = args
        batch = iterator.get_next_as_optional()
        if not batch.has_value():
            raise StopIteration
        return (iter([batch.get_value()]),)

    def aside(self) -> AbstractContextManager[None]:
        return self.framework.aside() if self._is_graph else nullcontext()

    def use_copies(self, outputs: Any) -> None:
        if self._is_graph:
            self.framework.use_copies(outputs)

    def scope(self) -> Any:
        # The bodies of loops and branches are graphs of their own.
        return tf.compat.v1.get_default_graph()
