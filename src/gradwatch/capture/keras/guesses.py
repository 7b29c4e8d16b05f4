"""The loss of the best constant guess in a step of Keras, of one output or of several."""

from collections.abc import Iterator, Sequence
from typing import Any

from keras import ops

from gradwatch.capture.constant_guess import (
    CLASS_GUESS,
    CONSTANT_LOSS,
    OUTPUT_LOSS,
    WEIGHTED_GUESS,
    constant_loss,
    is_of_classes,
)
from gradwatch.capture.keras.describe_model import single_loss_facts
from gradwatch.compat.keras_facts import OPS
from gradwatch.core import LossFacts, Tensor


def guess_of(loss: LossFacts, targets: Tensor, weights: Tensor | None = None) -> Tensor | None:
    """The loss that the best constant guess has on a batch; None if that is not known.

    With weights of samples, it is the mean that they weigh.
    """
    if not loss.is_mean:
        return None
    targets = ops.cast(ops.stop_gradient(targets), "float32")
    smoothing = loss.label_smoothing or 0.0
    if smoothing:
        is_binary = (loss.name or "").startswith("binary")
        classes = 2 if is_binary else targets.shape[-1]
        targets = targets * (1.0 - smoothing) + smoothing / classes
    return constant_loss(OPS, loss.name, targets, weights)


def weighted_numbers(
    loss: LossFacts, targets: Tensor, weights: Tensor
) -> Iterator[tuple[str, Tensor]]:
    """The guess where samples have weights, as the loss has them: as factors before the mean."""
    weights = ops.cast(ops.stop_gradient(weights), "float32")
    guess = guess_of(loss, targets, weights)
    if guess is None:
        return
    is_over_weights = loss.reduction == "mean_with_sample_weight"
    yield CONSTANT_LOSS, guess if is_over_weights else guess * ops.mean(weights)
    if is_of_classes(loss.name):
        plain = guess_of(loss, targets)
        if plain is not None:
            yield WEIGHTED_GUESS, guess
            yield CLASS_GUESS, plain


def numbers_of_outputs(
    terms: Sequence[tuple[Any, Tensor, Tensor]],
) -> Iterator[tuple[str, Tensor]]:
    """Of each of several outputs its loss and its guess, and the guess of all, as far as known.

    Each is multiplied by the weight of the output's loss.

    Args:
        terms: the entry of the compiled loss, the targets and the losses of each output.
    """
    guesses = []
    for entry, targets, losses in terms:
        guess = guess_of(single_loss_facts(entry.loss), targets)
        if guess is not None:
            weight = 1.0 if entry.loss_weights is None else entry.loss_weights
            guesses.append(guess * weight)
            yield f"{CONSTANT_LOSS}/{entry.name}", guesses[-1]
            yield f"{OUTPUT_LOSS}/{entry.name}", ops.mean(ops.cast(losses, "float32")) * weight
    if terms and len(guesses) == len(terms):
        yield CONSTANT_LOSS, sum(guesses)
