"""The facts about a Keras model for a diagnosis: its layers, its loss, its optimizer."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import keras

from gradwatch.capture.keras.layers import model_layers
from gradwatch.capture.keras.optimizers import (
    find_optimizers,
    innermost,
    is_of_keras,
    is_pure_schedule,
)
from gradwatch.core import LayerFacts, LossFacts, ModelFacts, OptimizerFacts


def facts_of(model: Any) -> ModelFacts:
    """The facts of a model that is compiled, before or between its training steps.

    What is not known for sure is left open: the loss of a model with its own train step, say.
    """
    paths = {id(each.layer): each.path for each in model_layers(model)}
    return ModelFacts(
        layers=[_layer(layer, paths[id(layer)]) for layer in _in_order(model, paths, set())],
        outputs=[paths[id(layer)] for layer in _output_layers(model) if id(layer) in paths],
        loss=_loss(model),
        optimizer=_optimizer(model),
        precision=_precision(model),
    )


def _in_order(holder: Any, known: Mapping[int, str], seen: set[int]) -> Iterator[Any]:
    """The layers as they are executed, as far as that is known; those inside others first."""
    # `layers` is in the order of execution in sequential and functional models.
    for layer in getattr(holder, "layers", None) or holder._layers:
        if id(layer) not in seen:
            seen.add(id(layer))
            yield from _in_order(layer, known, seen)
            if id(layer) in known:
                yield layer


def _layer(layer: Any, path: str) -> LayerFacts:
    return LayerFacts(
        path=path,
        class_name=type(layer).__name__,
        activation=_name_of(getattr(layer, "activation", None)),
        units=_units(layer),
        trainable=bool(layer.trainable_weights) if layer.weights else None,
        dtype=str(layer.compute_dtype),
    )


def _name_of(function: Any) -> str | None:
    name = getattr(function, "__name__", None)
    return name if isinstance(name, str) and name.isidentifier() else None


def _units(layer: Any) -> int | None:
    """How many features or channels it returns."""
    filters = getattr(layer, "filters", None)
    if isinstance(filters, int):
        return filters
    nodes = getattr(layer, "_inbound_nodes", [])
    outputs = keras.tree.flatten(nodes[0].outputs) if nodes else []
    if len(outputs) == 1 and len(outputs[0].shape) > 1 and outputs[0].shape[-1] is not None:
        return int(outputs[0].shape[-1])
    units = getattr(layer, "units", None)
    return units if isinstance(units, int) else None


def _output_layers(model: Any) -> list[Any]:
    """The layers that compute what the model returns; none where that is not known."""
    if isinstance(model, keras.Sequential):
        last = model.layers[-1:]
        return _output_layers(last[0]) if last and isinstance(last[0], keras.Model) else last
    found: list[Any] = []
    try:
        outputs = keras.tree.flatten(model.outputs)
    except AttributeError:  # One whose call says only when it runs what it returns.
        return []
    for tensor in outputs:
        operation = tensor._keras_history.operation
        if isinstance(operation, keras.Model):
            found += _output_layers(operation)
        else:
            found.append(operation)
    return found


def _loss(model: Any) -> LossFacts:
    is_keras_s_own = (
        type(model).compute_loss is keras.Model.compute_loss
        and type(model).train_step is keras.Model.train_step
    )
    loss = getattr(model, "loss", None)
    if isinstance(loss, Mapping | list | tuple):
        several = list(loss.values() if isinstance(loss, Mapping) else loss)
        loss = several[0] if len(several) == 1 else None
    if loss is None or not is_keras_s_own:
        return LossFacts(is_of_own_step=type(model).train_step is not keras.Model.train_step)
    found: Any = keras.losses.get(loss)
    if not is_of_keras(found if not isinstance(found, keras.losses.Loss) else type(found)):
        return LossFacts()
    if not isinstance(found, keras.losses.Loss):
        # A function of Keras, reduced by compile(); it takes probabilities by default.
        name = str(found.__name__)
        return LossFacts(name, False if "crossentropy" in name else None, None, None)
    config = found.get_config()
    return LossFacts(
        name=_snake(type(found).__name__),
        from_logits=config.get("from_logits"),
        reduction=config.get("reduction"),
    )


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _optimizer(model: Any) -> OptimizerFacts:
    optimizers = find_optimizers(model)
    if len(optimizers) != 1:
        return OptimizerFacts()
    outer, inner = optimizers[0], innermost(optimizers[0])
    scale = None
    if isinstance(outer, keras.optimizers.LossScaleOptimizer):
        # It has a scale that changes only once it is built.
        scale = _number(getattr(outer, "dynamic_scale", outer.initial_scale))
    return OptimizerFacts(
        name=type(inner).__name__.lower(),
        learning_rate=_learning_rate(inner),
        is_scheduled=isinstance(
            inner._learning_rate, keras.optimizers.schedules.LearningRateSchedule
        ),
        loss_scale=scale,
    )


def _learning_rate(optimizer: Any) -> float | None:
    rate = optimizer._learning_rate
    if is_pure_schedule(rate):
        return _number(rate(optimizer.iterations))
    return _number(rate) if isinstance(rate, keras.Variable) else None


def _number(value: Any) -> float | None:
    try:
        plain = value.value if isinstance(value, keras.Variable) else value
        return float(keras.ops.convert_to_numpy(plain))
    except (TypeError, ValueError):
        return None


def _precision(model: Any) -> str | None:
    """The dtype policy of the first layer with variables."""
    layers = [layer for layer in model._flatten_layers() if layer is not model and layer.weights]
    return str(layers[0].dtype_policy.name) if layers else None
