"""Running steps again on JAX, where a step is a function of the state."""

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradwatch.capture.keras.again.kept_steps import MOST_STATE
from gradwatch.capture.keras.again.rerunner import Finite, Note, Rerunner
from gradwatch.capture.keras.backends.jax_backend import JaxBackend

# Training donates its own buffers to the next step.
_copy = jax.jit(lambda state: jax.tree.map(jnp.copy, state))


@jax.jit  # type: ignore[untyped-decorator]
def _copy_and_check(state: Any) -> Any:
    return jax.tree.map(jnp.copy, state), [jnp.isfinite(x).all() for x in _floats(state)]


def _floats(state: Any) -> list[Any]:
    """The variables that are floats, but those of metrics."""
    return [x for x in jax.tree.leaves(state[:3]) if jnp.issubdtype(x.dtype, jnp.floating)]


def _is_finite(x: Any) -> bool:
    return bool(np.isfinite(np.asarray(x)).all())


class _NotedBatches(Iterator[Any]):
    def __init__(self, batches: Iterator[Any], note: Note) -> None:
        self._batches = batches
        self._note = note

    def __next__(self) -> Any:
        batch = next(self._batches)
        with suppress(Exception):  # It reports its own.
            self._note(batch)
        return batch


class JaxRerunner(Rerunner):
    """The state is the argument of the step, and the batch comes from a Python iterator."""

    def __init__(self, backend: JaxBackend) -> None:
        self._backend = backend
        self.device = jax.default_backend()

    def arguments(self, args: Any, note: Note) -> Any:
        state, batches = args
        return state, _NotedBatches(batches, note)

    def copy_state(self, function: Any, args: Any) -> tuple[Any, Finite] | None:
        if self.size(args[0]) > MOST_STATE:
            return None  # It would not be kept, and what copies takes seconds to compile.
        if self.device == "cpu":
            # XLA would take as long to compile the checks as a training step, and nearly as long to
            # compile copies of hundreds of variables. At the next copy, when this is asked, NumPy
            # looks at 128 MB in 13 ms.
            state = jax.device_put(args[0], may_alias=False)
            return state, cache(lambda: tuple(map(_is_finite, _floats(state))))
        state, finite = _copy_and_check(args[0])
        return state, lambda: tuple(map(bool, finite))

    def size(self, state: Any) -> int:
        return sum(array.nbytes for array in jax.tree.leaves(state))

    def run(self, function: Any, state: Any, batch: Any) -> tuple[Any, Any]:
        args = self._backend.arguments((_copy(state), iter([batch])), histograms_due=False)
        outputs, after = function(*args)
        return outputs["measured"], after

    def refuses(self, function: Any, state: Any, batch: Any) -> bool:
        # A callback to the host, such as jax.debug.print or io_callback, is an effect.
        (state, batches) = self._backend.arguments((state, iter([batch])), histograms_due=False)
        return bool(jitted_step(function).trace(state, next(batches)).jaxpr.effects)


def jitted_step(function: Any) -> Any:
    """The compiled function of a state and a batch in a train function that Keras made."""
    known = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: cell.cell_contents for name, cell in known}["step_function"]
