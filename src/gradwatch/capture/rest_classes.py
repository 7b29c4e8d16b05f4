"""How well all classes but the most frequent one are told apart: padding, background, none.

A loss may fall by far because a model learns where the most frequent class is, and nothing else.
All here is written for any of NumPy, `keras.ops` and torch, whichever is given as `xp`.
"""

from collections.abc import Mapping
from typing import Any

from gradwatch.capture.constant_guess import constant_loss

REST_SHARE, REST_LOSS, REST_GUESS = "rest_share", "rest_loss", "rest_guess"
"""The share of the samples of all other classes; their cross-entropy, if it is known that they are
none of the most frequent one; and that of the best constant guess."""
_MOST_ELEMENTS = 1 << 20


def rest_numbers(xp: Any, logs: Any, labels: Any, weights: Any = None) -> Mapping[str, Any]:
    """The numbers about the samples that are not of the most frequent class.

    Args:
        xp: the module with the operations.
        logs: the logarithms of the probabilities, samples by classes.
        labels: the numbers of the classes, as floats.
        weights: of the samples, at least 0.
    """
    classes = logs.shape[1]
    most = _MOST_ELEMENTS // classes
    if classes < 3 or most < 1:
        return {}
    logs, labels = logs[:most], labels[:most]
    weights = xp.ones_like(labels) if weights is None else weights[:most]
    numbers = xp.reshape(xp.cumsum(xp.ones_like(logs[0]), axis=0) - 1.0, (1, -1))
    is_own = xp.reshape(labels, (-1, 1)) == numbers
    own = xp.where(is_own, xp.ones_like(logs), xp.zeros_like(logs))
    counts = xp.sum(own * xp.reshape(weights, (-1, 1)), axis=0)
    is_most = xp.reshape(counts == xp.max(counts), (1, -1))
    of_most = xp.where(is_most, xp.ones_like(logs), xp.zeros_like(logs))
    rest = weights * (1.0 - xp.sum(own * of_most, axis=1))
    # Of what is left of the probability.
    left = 1.0 - xp.sum(xp.exp(logs) * of_most, axis=1)
    losses = xp.log(xp.where(left > 1e-6, left, 0.0 * left + 1e-6)) - xp.sum(logs * own, axis=1)
    total = xp.sum(rest)
    # Without any, the loss is 0, and so is the guess.
    mean = xp.sum(losses * rest) / xp.where(total > 0.0, total, 1.0 + 0.0 * total)
    guess = constant_loss(xp, "sparse_categorical_crossentropy", labels, rest)
    return {REST_SHARE: total / xp.sum(weights), REST_LOSS: mean, REST_GUESS: guess}
