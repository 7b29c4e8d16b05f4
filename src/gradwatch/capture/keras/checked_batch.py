"""A batch for a model: as tensors, and checked before anything is run."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np


def as_tensors(part: Any) -> Any:
    """Arrays, tensors or lists of numbers, in any nesting of dicts and lists, as tensors.

    Float64 arrays become `keras.config.floatx()`, as `fit` does it.
    """
    if part is None:
        return None
    if all(isinstance(leaf, int | float) for leaf in keras.tree.flatten(part)):
        return _tensor(np.asarray(part))
    return keras.tree.map_structure(_tensor, part)


def _tensor(array: Any) -> Any:
    if isinstance(array, np.ndarray) and array.dtype == np.float64:
        array = array.astype(keras.config.floatx())
    return keras.ops.convert_to_tensor(array)


def check_batch(model: Any, x: Any, y: Any, sample_weight: Any) -> None:
    """Raise ValueError if a batch does not fit the model's inputs, or its parts each other."""
    _check_inputs(model, x)
    samples = [tuple(t.shape)[:1] for t in keras.tree.flatten(x)]
    for what, part in (("x", x), ("y", y), ("sample_weight", sample_weight)):
        for tensor in keras.tree.flatten(part):
            if tensor is not None and tuple(tensor.shape)[:1] != samples[0]:
                raise ValueError(
                    f"The parts of a batch have as many samples each, and {what} has "
                    f"{_count(tuple(tensor.shape))} where the first of x has {_count(samples[0])}. "
                    f"Received: {what} of shape {tuple(tensor.shape)}"
                )


def shapes(part: Any) -> Any:
    """The shapes of a structure of tensors, for messages."""
    return keras.tree.map_structure(lambda t: None if t is None else tuple(t.shape), part)


def _check_inputs(model: Any, x: Any) -> None:
    try:
        inputs = list(model.inputs or [])
    except AttributeError:  # a model that says only when called what it takes
        inputs = []
    if not inputs:
        return
    names = [tensor.name for tensor in inputs]
    if isinstance(x, Mapping):
        missing = [name for name in names if name not in x]
        if missing:
            raise ValueError(
                f"The model {model.name!r} takes an input {missing[0]!r}, which the batch lacks. "
                f"Received: {', '.join(map(str, x))}"
            )
        given = [x[name] for name in names]
    else:
        given = keras.tree.flatten(x)
    if len(given) != len(inputs):
        raise ValueError(
            f"The model {model.name!r} takes {len(inputs)} inputs: {', '.join(names)}. "
            f"Received: {len(given)}"
        )
    for name, spec, tensor in zip(names, inputs, given, strict=True):
        if not _fits(tuple(tensor.shape), tuple(spec.shape)):
            raise ValueError(
                f"The input {name!r} of the model {model.name!r} takes batches of shape "
                f"{tuple(spec.shape)}. Received: shape {tuple(tensor.shape)}"
            )


def _fits(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    # Keras adds or drops a last axis of length 1.
    if len(shape) == len(wanted) - 1 and wanted[-1] == 1:
        wanted = wanted[:-1]
    elif len(shape) == len(wanted) + 1 and shape[-1] == 1:
        shape = shape[:-1]
    return len(shape) == len(wanted) and all(
        w in (None, s) for s, w in zip(shape, wanted, strict=True)
    )


def _count(shape: tuple[int, ...]) -> str:
    return str(shape[0]) if shape else "no axis of samples"
