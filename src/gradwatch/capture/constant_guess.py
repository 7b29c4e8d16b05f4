"""The loss of the best constant guess: what a model reaches that ignores its input.

It follows from the targets alone: the entropy of the classes, the variance of values. All here is
written for any of NumPy, `keras.ops` and torch, whichever is given as `xp`.
"""

import math
from collections.abc import Callable
from typing import Any

CONSTANT_LOSS = "constant_loss"
"""The name of the number, beside the loss of the same step; of an output, with its name."""
OUTPUT_LOSS = "output_loss"
"""The name of the loss of one output of several, followed by that of the output."""

_MOST_TARGETS = 1 << 18
"""Of a larger batch only so many elements are looked at."""


def constant_loss(xp: Any, loss: str | None, targets: Any) -> Any | None:
    """The loss that the best constant guess has on a batch; None if that is not known.

    The guess is one number per column of the targets, or one probability per class. It is the best
    one for this very batch, so that small batches look better than all data would: that of n
    samples by a factor of about 1 - 1/n for values.

    Args:
        xp: the module with the operations.
        loss: the name of the loss, in snake case.
        targets: floats, the samples along the first axis.
    """
    function = _GUESSES.get(loss or "")
    shape = tuple(targets.shape)
    if function is None or not shape or any(size == 0 for size in shape):
        return None
    samples, columns = shape[0], 1
    for size in shape[1:]:
        if size is None:
            return None
        columns *= size
    if columns > _MOST_TARGETS:
        return None
    if samples is None or samples * columns > _MOST_TARGETS:
        targets = targets[: _MOST_TARGETS // columns]
    return function(xp, targets)


def _columns(xp: Any, targets: Any) -> Any:
    """Samples by columns."""
    return xp.reshape(targets, (-1, math.prod(targets.shape[1:])))


def _entropy_of_indices(xp: Any, targets: Any) -> Any:
    labels = _alone(xp.sort(xp.reshape(targets, (-1,)), axis=0))
    # How often the label of each element occurs.
    first, last = (xp.searchsorted(labels, labels, side=side) for side in ("left", "right"))
    shares = xp.divide(last - first, xp.sum(xp.ones_like(labels)))
    return -xp.mean(xp.log(shares))


def _entropy_of_one_hot(xp: Any, targets: Any) -> Any:
    if len(targets.shape) < 2:
        return None
    shares = xp.mean(xp.reshape(targets, (-1, targets.shape[-1])), axis=0)
    return -xp.sum(_times_log(xp, shares))


def _entropy_of_answers(xp: Any, targets: Any) -> Any:
    shares = xp.mean(_columns(xp, targets), axis=0)
    return -xp.mean(_times_log(xp, shares) + _times_log(xp, 1.0 - shares))


def _variance(xp: Any, targets: Any) -> Any:
    columns = _columns(xp, targets)
    errors = columns - xp.reshape(xp.mean(columns, axis=0), (1, -1))
    return xp.mean(errors * errors)


def _from_medians(xp: Any, targets: Any) -> Any:
    """Errors of the columns from their medians."""
    columns = _columns(xp, targets)
    return xp.abs(columns - xp.reshape(_alone(xp.median(columns, axis=0)), (1, -1)))


def _mean_deviation(xp: Any, targets: Any) -> Any:
    return xp.mean(_from_medians(xp, targets))


def _huber(xp: Any, targets: Any) -> Any:
    """With the default width of 1; the median is nearly the best guess."""
    errors = _from_medians(xp, targets)
    return xp.mean(xp.where(errors < 1.0, 0.5 * errors * errors, errors - 0.5))


def _log_cosh(xp: Any, targets: Any) -> Any:
    """The mean is nearly the best guess."""
    columns = _columns(xp, targets)
    sizes = xp.abs(columns - xp.reshape(xp.mean(columns, axis=0), (1, -1)))
    return xp.mean(sizes + xp.log1p(xp.exp(-2.0 * sizes)) - math.log(2.0))


def _variance_of_logs(xp: Any, targets: Any) -> Any:
    return _variance(xp, xp.log1p(xp.where(targets > 0.0, targets, xp.zeros_like(targets))))


def _times_log(xp: Any, shares: Any) -> Any:
    # The logarithm of 0 is not computed: programs that look for NaN would find it.
    is_inside = shares > 0.0
    logs = xp.log(xp.where(is_inside, shares, xp.ones_like(shares)))
    return xp.where(is_inside, shares * logs, xp.zeros_like(shares))


def _alone(values: Any) -> Any:
    """The values without their places, which torch returns beside them."""
    return values[0] if isinstance(values, tuple) else values


_GUESSES: dict[str, Callable[[Any, Any], Any | None]] = {
    "sparse_categorical_crossentropy": _entropy_of_indices,
    "cross_entropy": _entropy_of_indices,
    "nll_loss": _entropy_of_indices,
    "categorical_crossentropy": _entropy_of_one_hot,
    **dict.fromkeys(("binary_crossentropy", "bce"), _entropy_of_answers),
    **dict.fromkeys(("mean_squared_error", "mse"), _variance),
    **dict.fromkeys(("mean_absolute_error", "mae"), _mean_deviation),
    **dict.fromkeys(("huber", "smooth_l1"), _huber),
    **dict.fromkeys(("log_cosh", "logcosh"), _log_cosh),
    **dict.fromkeys(("mean_squared_logarithmic_error", "msle"), _variance_of_logs),
}
