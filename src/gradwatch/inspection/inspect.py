"""`gradwatch.inspect`: the gradients of one batch, layer by layer."""

import sys
from collections.abc import Sequence
from typing import Any

from gradwatch.core import Histogram
from gradwatch.core import select as selectors
from gradwatch.inspection.inspected import InspectedGradient, Inspection
from gradwatch.inspection.table_text import show as show_inspection
from gradwatch.util import suggests_arguments


@suggests_arguments({"inputs": "x=", "targets": "y=", "labels": "y=", "verbose": "show="})
def inspect(
    model: Any,
    x: Any,
    y: Any = None,
    *,
    layers: Sequence[selectors.Spec] | selectors.Spec | None = None,
    loss: Any = None,
    sample_weight: Any = None,
    training: bool = True,
    first_values: int = 5,
    show: bool = True,
) -> Inspection:
    """Print and return the gradients of the loss of one batch, layer by layer.

    With respect to each weight of the chosen layers and to what they return.
    Nothing is trained: the model, its optimizer and metrics, the statistics of
    normalization layers and all random states are afterwards what they were. So
    a second call gives the same numbers.

    Args:
        model: a Keras model. If it has no variables yet, it is built on the batch.
        x, y: a batch, as for `model.train_on_batch`.
        layers: which layers, see `gradwatch.select`; all if not given.
        loss: instead of the one that the model is compiled with: a name, a
            `keras.losses.Loss`, a function of (y_true, y_pred) that returns a
            number, or a list or dict of these for several outputs. Regularisation
            losses are added to it.
        sample_weight: weights for the samples.
        training: whether to call the model as in training. True, the default,
            gives the gradients of the next training step on this batch, with the
            dropout mask that it would draw and batch statistics; False those of
            the model as it predicts.
        first_values: how many of a gradient's values to show.
        show: whether to print the result.

    Raises:
        TypeError: `model` is not a Keras model.
        ValueError: the batch does not fit the model, a layer does not exist, there
            is no loss, or it is not one number.

    Example:

    >>> import os; _ = os.environ.setdefault("KERAS_BACKEND", "jax")
    >>> import keras, numpy as np, gradwatch
    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, name="d")], name="net")
    >>> model.set_weights([np.array([[1.0], [2.0]]), np.array([0.5])])
    >>> found = gradwatch.inspect(model, [[1.0, 1.0]], [[0.0]], loss="mse", show=False)
    >>> found.loss, found.numpy("net/d/bias").tolist(), found.numpy("net/d").tolist()
    (12.25, [7.0], [[7.0]])
    """
    keras = sys.modules.get("keras")
    if keras is None or not isinstance(model, keras.Model):
        raise TypeError(f"inspect() takes a Keras model. Received: {type(model).__name__}")
    if first_values < 0:
        raise ValueError(f"first_values must be >= 0. Received: {first_values}")
    from gradwatch.capture.keras import differentiate

    batch = differentiate(model, x, y, sample_weight, loss, _selection(layers), bool(training))
    entries = [
        InspectedGradient(
            site=each.site,
            layer=each.layer,
            layer_type=each.layer_type,
            shape=each.shape,
            dtype=each.dtype,
            trainable=each.trainable,
            histogram=None if each.array is None else Histogram.of(each.array),
            first_values=()
            if each.array is None
            else tuple(each.array.reshape(-1)[:first_values].astype(float).tolist()),
        )
        for each in batch.gradients
    ]
    arrays = {each.site: each.array for each in (*batch.gradients, *batch.outputs)}
    result = Inspection(str(model.name), batch.loss, bool(training), entries, batch.remarks, arrays)
    if show:
        show_inspection(result)
    return result


def _selection(
    layers: Sequence[selectors.Spec] | selectors.Spec | None,
) -> tuple[selectors.Spec, ...]:
    if layers is None:
        return ()
    if isinstance(layers, Sequence) and not isinstance(layers, str):
        if not layers:
            raise ValueError("layers=[] selects nothing. Leave it out to inspect all layers.")
        return tuple(layers)
    return (layers,)
