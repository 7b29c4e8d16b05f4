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
CLASS_GUESS, WEIGHTED_GUESS = "class_guess", "weighted_guess"
"""Where samples have weights: the guess for classes without them, and the weighted mean of it."""

_MOST_TARGETS = 1 << 18
"""Of a larger batch only so many elements are looked at."""
_FEWEST_SAMPLES, _MOST_SAMPLES, _SAMPLES_PER_CLASS = 16, 64, 4.0
"""With these, the classes in each place are counted."""
_MOST_PAIRS = 1 << 19


def constant_loss(xp: Any, loss: str | None, targets: Any, weights: Any = None) -> Any | None:
    """The loss that the best constant guess has on a batch; None if that is not known.

    The guess is one number per column of the targets, or one probability per class. It is the best
    one for this very batch, so that small batches look better than all data would: that of n
    samples by a factor of about 1 - 1/n for values.

    Args:
        xp: the module with the operations.
        loss: the name of the loss, in snake case.
        targets: floats, the samples along the first axis.
        weights: of the samples, or of the elements of the targets, at least 0. The loss is the mean
            that they weigh, and the guess the best one for it.
    """
    plain, weighted = _GUESSES.get(loss or ""), _WEIGHTED.get(loss or "")
    shape = tuple(targets.shape)
    if (
        (plain if weights is None else weighted) is None
        or not shape
        or any(size == 0 for size in shape)
    ):
        return None
    samples, columns = shape[0], 1
    for size in shape[1:]:
        if size is None:
            return None
        columns *= size
    if columns > _MOST_TARGETS:
        return None
    if weights is not None:
        weights = _as_wide(xp, weights, targets)
        if weights is None:
            return None
    if samples is None or samples * columns > _MOST_TARGETS:
        most = _MOST_TARGETS // columns
        targets, weights = targets[:most], None if weights is None else weights[:most]
    if weights is not None and weighted is not None:
        return weighted(xp, targets, weights)
    return None if plain is None else plain(xp, targets)


def is_of_classes(loss: str | None) -> bool:
    """Whether the guess of a loss is an entropy."""
    return _GUESSES.get(loss or "") in (
        _entropy_of_indices,
        _entropy_of_one_hot,
        _entropy_of_answers,
    )


def _as_wide(xp: Any, weights: Any, targets: Any) -> Any | None:
    """The weights of all elements, from those of the samples; None if they do not fit."""
    own, shape = tuple(weights.shape), tuple(targets.shape)
    while len(own) > 1 and own[-1] == 1 and len(own) > len(shape):
        own = own[:-1]
    inner = zip(own[1:], shape[1:], strict=False)
    if not own or len(own) > len(shape) or any(a not in (b, 1) for a, b in inner):
        return None
    if own[0] != shape[0] and None not in (own[0], shape[0]):
        return None
    # How many samples there are may be unknown.
    own = (-1, *own[1:], *(1,) * (len(shape) - len(own)))
    return xp.reshape(weights, own) * xp.ones_like(targets)


def _columns(xp: Any, targets: Any) -> Any:
    """Samples by columns."""
    return xp.reshape(targets, (-1, math.prod(targets.shape[1:])))


def _entropy_of_indices(xp: Any, targets: Any) -> Any:
    return _knowing_places(xp, _entropy_of_all(xp, targets), targets, xp.ones_like(targets))


def _knowing_places(xp: Any, total: Any, targets: Any, weights: Any) -> Any:
    """The entropy of the classes in each place of a sample, if it is less than that of all.

    A model may know the place of a word or a pixel without looking at the input.
    """
    samples, columns = targets.shape[0], math.prod(targets.shape[1:])
    if columns < 2 or samples is None or samples < _FEWEST_SAMPLES:
        return total
    rows = min(samples, _MOST_SAMPLES)
    step = -(-columns * rows**2 // _MOST_PAIRS)
    labels, weights = (
        xp.reshape(each[:rows], (rows, columns))[:, ::step] for each in (targets, weights)
    )
    # How often each label occurs in its place.
    are_equal = xp.reshape(labels, (rows, 1, -1)) == xp.reshape(labels, (1, rows, -1))
    others = xp.reshape(weights, (1, rows, -1))
    masses = xp.sum(weights, axis=0)
    shares = _over(xp, xp.sum(xp.where(are_equal, others, 0.0 * others), axis=1), masses)
    # Miller and Madow's correction: of few samples, classes look rarer than they are.
    classes = xp.sum(_over(xp, weights, shares * masses), axis=0)
    few = _over(xp, (classes - 1.0) * xp.sum(weights * weights, axis=0), 2.0 * masses)
    in_places = _over(xp, xp.sum(few) - xp.sum(weights * _log(xp, shares)), xp.sum(masses))
    are_enough = xp.exp(total) < rows / _SAMPLES_PER_CLASS
    return xp.where(are_enough, xp.minimum(in_places, total), total)


def _entropy_of_all(xp: Any, targets: Any) -> Any:
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


def _weighted_entropy_of_indices(xp: Any, targets: Any, weights: Any) -> Any:
    given = targets, weights
    labels, weights = xp.reshape(targets, (-1,)), xp.reshape(weights, (-1,))
    order = xp.argsort(labels, axis=0)
    labels, weights = xp.take(labels, order), xp.take(weights, order)
    sums = xp.cumsum(weights, axis=0)
    first, last = (xp.searchsorted(labels, labels, side=side) for side in ("left", "right"))
    # What the labels before weigh, and what those up to the last equal one do.
    before = xp.where(first > 0, xp.take(sums, xp.where(first > 0, first - 1, first)), 0.0 * sums)
    shares = _over(xp, xp.take(sums, last - 1) - before, sums[-1])
    total = -_over(xp, xp.sum(weights * _log(xp, shares)), sums[-1])
    return _knowing_places(xp, total, *given)


def _over(xp: Any, numbers: Any, others: Any) -> Any:
    """The quotients; 0 where the divisor is not above 0."""
    is_above = others > 0.0
    return xp.where(is_above, numbers / xp.where(is_above, others, others + 1.0), 0.0 * numbers)


def _weighted_entropy_of_one_hot(xp: Any, targets: Any, weights: Any) -> Any:
    if len(targets.shape) < 2:
        return None
    targets, weights = (xp.reshape(each, (-1, targets.shape[-1])) for each in (targets, weights))
    shares = _over(xp, xp.sum(targets * weights, axis=0), xp.sum(weights[:, 0]))
    return -xp.sum(_times_log(xp, shares))


def _weighted_entropy_of_answers(xp: Any, targets: Any, weights: Any) -> Any:
    targets, weights = _columns(xp, targets), _columns(xp, weights)
    masses = xp.sum(weights, axis=0)
    shares = _over(xp, xp.sum(targets * weights, axis=0), masses)
    entropies = _times_log(xp, shares) + _times_log(xp, 1.0 - shares)
    return -_over(xp, xp.sum(entropies * masses), xp.sum(masses))


def _weighted_variance(xp: Any, targets: Any, weights: Any) -> Any:
    targets, weights = _columns(xp, targets), _columns(xp, weights)
    means = _over(xp, xp.sum(targets * weights, axis=0), xp.sum(weights, axis=0))
    errors = targets - xp.reshape(means, (1, -1))
    return _over(xp, xp.sum(weights * errors * errors), xp.sum(weights))


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
    return shares * _log(xp, shares)


def _log(xp: Any, shares: Any) -> Any:
    """The logarithms; 0 of 0."""
    # The logarithm of 0 is not computed: programs that look for NaN would find it.
    return xp.log(xp.where(shares > 0.0, shares, xp.ones_like(shares)))


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
_WEIGHTED: dict[str, Callable[[Any, Any, Any], Any | None]] = {
    "sparse_categorical_crossentropy": _weighted_entropy_of_indices,
    "cross_entropy": _weighted_entropy_of_indices,
    "nll_loss": _weighted_entropy_of_indices,
    "categorical_crossentropy": _weighted_entropy_of_one_hot,
    **dict.fromkeys(("binary_crossentropy", "bce"), _weighted_entropy_of_answers),
    **dict.fromkeys(("mean_squared_error", "mse"), _weighted_variance),
}
