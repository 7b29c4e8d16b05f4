"""Reading the gradients that replicas apply together off an optimizer, as it has reduced them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gradwatch.capture.keras.optimizers import innermost

REDUCE = "_all_reduce_sum_gradients"
"""The method of Keras's optimizers on TensorFlow that sums gradients over replicas."""


@contextmanager
def reductions_tapped(
    optimizers: Sequence[Any],
    note: Callable[[Any, list[tuple[Any, Any]]], None],
    fault: Callable[[Exception], None],
) -> Iterator[None]:
    """While the context lasts, note what the optimizers get when they sum over replicas.

    That is what their update rules use: unscaled, clipped if they clip, the same on every
    replica. It is there anyway; nothing is reduced a second time.

    Args:
        optimizers: the outermost ones; the innermost does it.
        note: called on every replica, with the outermost optimizer and pairs of a gradient
            and the variable as TensorFlow knows it.
        fault: called with an exception of ours, instead of raising it.
    """

    def tap(optimizer: Any, inner: Any) -> None:
        reduce = getattr(inner, REDUCE)

        def tapped_reduce(grads_and_vars: Any) -> Any:
            reduced = reduce(grads_and_vars)
            # Whatever is ours is called inside of this: the update must come to pass.
            try:
                note(optimizer, list(reduced))
            except Exception as error:
                fault(error)
            return reduced

        # Into __dict__, past Keras's tracking of attributes.
        vars(inner)[REDUCE] = tapped_reduce

    inner_ones = [innermost(optimizer) for optimizer in optimizers]
    own = [{n: m for n, m in vars(inner).items() if n == REDUCE} for inner in inner_ones]
    try:
        for optimizer, inner in zip(optimizers, inner_ones, strict=True):
            tap(optimizer, inner)
        yield
    finally:
        for inner, before in zip(inner_ones, own, strict=True):
            vars(inner).pop(REDUCE, None)
            vars(inner).update(before)
