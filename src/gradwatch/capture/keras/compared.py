"""How outputs and targets of a step in Keras compare, beside their loss."""

import math
from collections.abc import Iterator

from keras import ops
from keras.backend import standardize_dtype

from gradwatch.capture.rest_classes import rest_numbers
from gradwatch.capture.variation_names import (
    COPIED_CLASSES,
    INPUT_VARIATION,
    OUTPUT_VARIATION,
    TARGET_VARIATION,
)
from gradwatch.compat.keras_facts import OPS
from gradwatch.core import LossFacts, Tensor

AGREEMENT, OUTPUTS_OF_TARGET = "agreement", "outputs_of_target"
"""The correlation of outputs and targets; with how many outputs each target is compared."""
_MOST_OUTPUTS = 1 << 14
"""Of a sample; the classes of a vocabulary would take long."""
_FEWEST, _DIRECTIONS = 4, 8
"""Samples, of which fewer may be alike by chance; elements from which on directions are compared.
"""


def compared_numbers(
    loss: LossFacts, x: Tensor, targets: Tensor, outputs: Tensor, weights: Tensor | None
) -> Iterator[tuple[str, Tensor]]:
    """The numbers by name, as far as they can be had for a loss and these shapes."""
    if loss.name is None:
        number = correlation(targets, outputs)
        if number is not None:
            yield AGREEMENT, number
    is_sparse = (loss.name or "").startswith("sparse")
    count = None if is_sparse or loss.name is None else _outputs_of_target(targets, outputs)
    if count is not None:
        yield OUTPUTS_OF_TARGET, ops.convert_to_tensor(count, "float32")
    if loss.name == "sparse_categorical_crossentropy":
        yield from _rest(loss, targets, outputs, weights)
        copied = _copied(x, targets, weights)
        if copied is not None:
            yield COPIED_CLASSES, copied
    else:
        given = {INPUT_VARIATION: x, OUTPUT_VARIATION: outputs, TARGET_VARIATION: targets}
        found = {name: None if y is None else _variation(y) for name, y in given.items()}
        if found[INPUT_VARIATION] is not None and found[OUTPUT_VARIATION] is not None:
            yield from ((name, number) for name, number in found.items() if number is not None)


def _rest(
    loss: LossFacts, targets: Tensor, outputs: Tensor, weights: Tensor | None
) -> Iterator[tuple[str, Tensor]]:
    """Of several targets for each sample, how well those of all classes but one are told apart."""
    shape, wanted = tuple(outputs.shape), tuple(targets.shape)
    if len(shape) < 3 or None in shape[-1:] or wanted[1:] not in (shape[1:-1], (*shape[1:-1], 1)):
        return
    logs = ops.reshape(ops.cast(outputs, "float32"), (-1, shape[-1]))
    logs = ops.log_softmax(logs, -1) if loss.from_logits else ops.log(ops.clip(logs, 1e-7, 1.0))
    labels = ops.reshape(ops.cast(targets, "float32"), (-1,))
    if weights is not None:
        if len(weights.shape) != len(shape) - 1:
            return
        weights = ops.reshape(ops.cast(weights, "float32"), (-1,))
    yield from rest_numbers(OPS, logs, labels, weights).items()


def _copied(x: Tensor | None, targets: Tensor, weights: Tensor | None) -> Tensor | None:
    """The share of the classes that are the ids in the same places of the input.

    None if there are no ids in the places of several targets of a sample; or if there are weights,
    which may leave out any of them.
    """
    if x is None or weights is not None or "int" not in standardize_dtype(x.dtype):
        return None
    given, wanted = tuple(x.shape)[1:], tuple(targets.shape)[1:]
    if None in given or wanted not in (given, (*given, 1)) or math.prod(given) < _FEWEST:
        return None
    ids, targets = (ops.reshape(ops.cast(each, "float32"), (-1,)) for each in (x, targets))
    return ops.mean(ops.cast(ops.equal(ids, targets), "float32"))


def _variation(tensor: Tensor) -> Tensor | None:
    """As `gradwatch.capture.torch.variation`, in the step; None of fewer samples than known."""
    shape = tuple(tensor.shape)
    if not shape or None in shape[1:] or (shape[0] is not None and shape[0] < _FEWEST):
        return None
    columns = math.prod(shape[1:])
    if not 0 < columns <= _MOST_OUTPUTS:
        return None
    samples = ops.reshape(ops.cast(tensor, "float32"), (-1, columns))
    if columns >= _DIRECTIONS:
        sizes = ops.sqrt(ops.sum(samples * samples, axis=1, keepdims=True))
        samples = samples / ops.maximum(sizes, 1e-12)
    apart = samples - ops.mean(samples, axis=0, keepdims=True)
    return ops.sqrt(ops.mean(apart * apart) / ops.maximum(ops.mean(samples * samples), 1e-30))


def correlation(targets: Tensor, outputs: Tensor) -> Tensor | None:
    """How outputs go with their targets, from -1 to 1, apart from the means of the columns.

    Whole numbers beside outputs of one more axis are classes. None if the shapes do not fit.
    """
    shape = tuple(outputs.shape)
    if not shape or None in shape[1:] or math.prod(shape[1:]) > _MOST_OUTPUTS:
        return None
    if len(targets.shape) == len(shape) - 1 and shape[-1] > 1:
        targets = ops.one_hot(ops.cast(targets, "int32"), shape[-1])
    elif len(targets.shape) == len(shape) - 1:
        targets = ops.expand_dims(targets, -1)  # As Keras itself does.
    if len(targets.shape) != len(shape) or tuple(targets.shape)[1:] != shape[1:]:
        return None
    columns = shape[-1] if len(shape) > 1 else 1
    x, y = (
        ops.reshape(ops.cast(ops.stop_gradient(each), "float32"), (-1, columns))
        for each in (targets, outputs)
    )
    x, y = x - ops.mean(x, axis=0, keepdims=True), y - ops.mean(y, axis=0, keepdims=True)
    return ops.sum(x * y) / ops.sqrt(ops.sum(x * x) * ops.sum(y * y) + 1e-20)


def _outputs_of_target(targets: Tensor, outputs: Tensor) -> float | None:
    """With how many outputs of a sample each target is compared; None if with one, or unknown."""
    given, wanted = tuple(outputs.shape)[1:], tuple(targets.shape)[1:]
    if len(outputs.shape) < 2 or None in (*given, *wanted) or not math.prod(wanted):
        return None
    count = math.prod(given) / math.prod(wanted)
    return count if count > 1.0 else None
