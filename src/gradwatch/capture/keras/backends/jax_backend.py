"""A Keras training step on JAX."""

import math
import warnings
from typing import Any

import jax
import keras
import numpy as np

from gradwatch.capture.keras.backends.keras_backend import KerasBackend
from gradwatch.capture.keras.backends.wrapped_step import watched
from gradwatch.capture.user_taps import STATE
from gradwatch.capture.user_taps.traced_taps import call_traced
from gradwatch.compat import jax_names
from gradwatch.core import KerasModel
from gradwatch.measure import Framework, framework

_EAGER = (
    "Taps are not recorded in steps of JAX that are not compiled. Compile the model without "
    "run_eagerly=True and jit_compile=False."
)


MOST_ON_HOST = 1 << 27
"""Bytes of gradients, weights before and weights after a step that are measured on the host."""


class JaxBackend(KerasBackend):
    """The step maps (state, batch) to (logs, state), and so does the function.

    Whether histograms are due comes with the batch: a compiled step sees only its arguments.
    """

    framework = framework("jax")
    has_state = True

    def __init__(self, model: KerasModel) -> None:
        self._compiled = bool(model.jit_compile and not model.run_eagerly)
        self.while_compiling = _sharding_attributes(model)

    def wrap(self, train_step: Any, observation: Any) -> Any:
        def measure(due: Any, result: Any) -> Any:
            observation.note_logs(result[0])
            return observation.measure(due, result[1])

        step = watched(train_step, observation, measure, has_state=True)

        def not_compiled(*args: Any) -> Any:
            # Taps of another model may have been passed before.
            others, STATE.has_arrays = STATE.has_arrays, False
            try:
                return step(*args)
            finally:
                if STATE.has_arrays:
                    observation.reporter.notice(_EAGER)
                STATE.has_arrays |= others

        def tapped(*args: Any) -> Any:
            # Only then: it takes time to compile.
            if not STATE.has_arrays:
                return step(*args)
            (result, state), taps = call_traced(step, args, {})
            if result["measured"]:
                result["measured"] |= observation.tap_arrays(lambda: taps)
            return result, state

        return tapped if self._compiled else not_compiled

    def on_host(self, model: KerasModel) -> Framework | None:
        if not self._compiled or jax.default_backend() != "cpu" or jax.device_count() > 1:
            return None
        size = 3 * 4 * sum(math.prod(variable.shape) for variable in model.trainable_variables)
        return framework("jax_on_host") if size <= MOST_ON_HOST else None

    def arguments(self, args: Any, histograms_due: bool) -> Any:
        state, iterator = args
        data = next(iterator)
        # Not compiled, a bool of Python chooses; lax.cond would compile every time.
        due = np.bool_(histograms_due) if self._compiled else histograms_due
        return state, iter([(due, data)])

    def advance(self, args: Any, result: Any) -> Any:
        return (result[1], args[1])

    def can_run_own(self, args: Any) -> bool:
        if not self._compiled:
            return False
        # A step that has begun to run has taken the buffers of the state.
        arrays = [x for x in jax.tree.leaves(args[0]) if isinstance(x, jax.Array)]
        return not any(x.is_deleted() for x in arrays)

    def scope(self) -> Any:
        return jax_names.get_opaque_trace_state(convention="nnx")


def _sharding_attributes(model: KerasModel) -> dict[str, Any]:
    """The layout of the state on several devices, for when Keras compiles a step.

    Keras asks the variables, which have no values while the model trains. Now they have.
    """
    if keras.distribution.distribution() is None:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras has given these warnings already.
        shardings = model._get_state_sharding_spec()
    return {"_get_state_sharding_spec": lambda: shardings}
