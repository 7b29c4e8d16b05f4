"""Runs a function and returns what has passed its taps."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from gradwatch.capture.autograph import do_not_convert
from gradwatch.capture.errors import WrongTypeError
from gradwatch.capture.user_taps.tap_collector import TapCollector
from gradwatch.capture.user_taps.tap_rows import TapRows
from gradwatch.capture.user_taps.tap_state import STATE


def with_taps(function: Callable[..., Any]) -> Callable[..., tuple[Any, TapRows]]:
    """Make a function return what has passed its taps, too: `(result, taps)`.

    Give `taps` to `monitor.measure(taps=...)` inside of a compiled step, or to
    `monitor.record(taps=...)` outside. In JAX, put it around the differentiation, inside of `jit`;
    the result may leave compiled functions. In TensorFlow and torch, put it around the forward and
    the backward pass. `gradwatch.watch` and Keras `fit` need none.

    Args:
        function: any function. It is called once, with the same arguments.

    Example:

    >>> import gradwatch, jax, jax.numpy as jnp
    >>> def loss(w, x):
    ...     layer = lambda x, w: (gradwatch.tap(jnp.tanh(x @ w), "h"), None)
    ...     return jax.lax.scan(layer, x, w)[0].sum()
    >>> step = jax.jit(gradwatch.with_taps(jax.value_and_grad(loss)))
    >>> (value, gradients), taps = step(jnp.ones((2, 3, 3)), jnp.ones((4, 3)))
    >>> [site.path for site in taps.sites[0]]
    ['h/0', 'h/1']
    """
    if not callable(function):
        raise WrongTypeError(
            f"with_taps() takes a function, and returns one: with_taps(jax.value_and_grad(loss))"
            f"(params, x). Received: {type(function).__name__}"
        )

    @do_not_convert
    @wraps(function, updated=())
    def call(*args: Any, **kwargs: Any) -> tuple[Any, TapRows]:
        if _takes_arrays((args, kwargs)):
            from gradwatch.capture.user_taps.traced_taps import call_traced

            return call_traced(function, args, kwargs)
        collector = TapCollector()
        with STATE.collecting(collector):
            result = function(*args, **kwargs)
            return result, _taken(collector)

    return call


def _taken(collector: TapCollector) -> TapRows:
    try:
        for name in sorted(collector.bound):
            collector.refuse(
                name, "with_taps sees arrays of JAX only if its function has arrays as arguments."
            )
        return collector.take()
    except Exception as error:
        collector.reporter.internal_error(error, "measuring what passed taps", "taps of that step")
        return collector.only_notices()


def _takes_arrays(given: Any) -> bool:
    """Whether there is an array of JAX among the arguments."""
    jax: Any = sys.modules.get("jax")
    if jax is None or not hasattr(jax, "tree"):
        return False
    leaves: Sequence[Any] = jax.tree.leaves(given)
    return any(isinstance(leaf, jax.Array) for leaf in leaves)
