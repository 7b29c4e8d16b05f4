"""The loss of a batch, as the model was compiled with it or as it is given."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import keras

from gradwatch.capture.keras.checked_batch import shapes


def loss_of(
    model: Any, loss: Any, x: Any, y: Any, y_pred: Any, sample_weight: Any, training: bool
) -> Any:
    """The loss of a batch, regularisation and `add_loss` included.

    The compiled loss is taken if `loss` is None; else it is as for `compile`, but a function must
    return one number. A loss that is not a number or does not fit the outputs raises ValueError.
    """
    if loss is None:
        if model._compile_loss is None and not model.losses and not _has_own_loss(model):
            raise ValueError(_no_loss(model, "is compiled without one"))
        with _explained(y, y_pred):
            value = model._compute_loss(
                x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=training
            )
        return _number(value, "the compiled loss")
    total = sum(
        _number(_one_loss(each, true, predicted, weight), f"loss={each!r}")
        for each, true, predicted, weight in _pairs(model, loss, y, y_pred, sample_weight)
    )
    return sum((keras.ops.sum(extra) for extra in model.losses), start=total)


def require_loss(model: Any, loss: Any) -> None:
    """Raise ValueError if the model is not compiled, and no loss is given."""
    if loss is None and not model.compiled:
        raise ValueError(_no_loss(model, "is not compiled"))


def _no_loss(model: Any, why: str) -> str:
    return (
        f"inspect() needs a loss to differentiate, and the model {model.name!r} {why}. "
        'Give one, inspect(model, x, y, loss="mse"), or compile the model with one.'
    )


def _has_own_loss(model: Any) -> bool:
    return type(model).compute_loss is not keras.Model.compute_loss


@contextmanager
def _explained(y: Any, y_pred: Any) -> Iterator[None]:
    """Say of which targets and outputs a loss could not be computed."""
    try:
        yield
    except Exception as error:
        raise ValueError(
            "The loss of this batch cannot be computed. "
            f"Received: y of shape {shapes(y)} for outputs of shape {shapes(y_pred)}. {error}"
        ) from error


def _number(value: Any, what: str) -> Any:
    shape = tuple(getattr(value, "shape", ()))
    if shape:
        raise ValueError(
            f"inspect() differentiates a loss that is one number, and {what} returned a tensor of "
            f"shape {shape}. Reduce it: its mean or its sum, or a reduction of the keras Loss."
        )
    return value


def _one_loss(loss: Any, y: Any, y_pred: Any, sample_weight: Any) -> Any:
    function = keras.losses.get(loss)
    if isinstance(function, keras.losses.Loss):
        with _explained(y, y_pred):
            return function(y, y_pred, sample_weight=sample_weight)
    if getattr(function, "__module__", "").partition(".")[0] == "keras":
        # One of Keras's own gives a number per sample; compile() takes their mean.
        with _explained(y, y_pred):
            return _MeanOf(function)(y, y_pred, sample_weight=sample_weight)
    if sample_weight is not None:
        raise ValueError(
            f"inspect() does not know how sample_weight goes into the function {loss!r}. Give a "
            "keras.losses.Loss, or weigh inside the function."
        )
    with _explained(y, y_pred):
        return function(y, y_pred)


class _MeanOf(keras.losses.Loss):  # type: ignore[misc]
    """A loss from a function of Keras's, reduced as `compile` does it."""

    def __init__(self, function: Any) -> None:
        super().__init__(name="loss")
        self._function = function

    def call(self, y_true: Any, y_pred: Any) -> Any:
        return self._function(y_true, y_pred)


def _pairs(
    model: Any, loss: Any, y: Any, y_pred: Any, sample_weight: Any
) -> list[tuple[Any, Any, Any, Any]]:
    """(loss, y, y_pred, sample_weight) of each output that has a loss."""
    predictions = _by_output(model, y_pred)
    truths = _by_output(model, y)
    losses = _by_output(model, loss) if isinstance(loss, Mapping | list | tuple) else None
    if losses is None:
        losses = dict.fromkeys(predictions, loss)
    several = isinstance(sample_weight, Mapping | list | tuple)
    weights = _by_output(model, sample_weight) if several else {}
    for what, given in (("loss", losses), ("y", truths)):
        strange = [str(name) for name in given if name not in predictions]
        missing = [] if what == "loss" else [str(n) for n in losses if n not in given]
        if strange or missing:
            raise ValueError(
                f"inspect() cannot match {what} with the outputs of the model {model.name!r}: "
                f"{', '.join(map(str, predictions))}. Received: {', '.join(map(str, given))}."
            )
    return [
        (each, truths[name], predictions[name], weights.get(name) if several else sample_weight)
        for name, each in losses.items()
        if each is not None
    ]


def _by_output(model: Any, structure: Any) -> dict[Any, Any]:
    """Parts of a structure by the name of the output, or its place."""
    if isinstance(structure, Mapping):
        return dict(structure)
    names = list(getattr(model, "output_names", None) or [])
    parts = list(structure) if isinstance(structure, list | tuple) else [structure]
    if len(names) != len(parts):
        names = list(range(len(parts)))
    return dict(zip(names, parts, strict=True))
