"""The facts about a Keras model for a diagnosis: its layers, its loss, its optimizer."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import keras

from gradwatch.capture.keras.layers import ModelLayer, model_layers
from gradwatch.capture.keras.model_parts import fact, is_of_keras, top_layers
from gradwatch.capture.keras.optimizers import (
    find_optimizers,
    is_pure_schedule,
    updating_optimizers,
)
from gradwatch.core import LayerFacts, LossFacts, ModelFacts, OptimizerFacts, ParameterFacts
from gradwatch.util import Reporter, described

T = TypeVar("T")


def facts_of(model: Any, reporter: Reporter) -> ModelFacts:
    """The facts of a model that is compiled, before or between its training steps.

    What is not known for sure is left open: the loss of a model with its own train step, say. Each
    is read by itself: an object of the user that raises costs no other fact, and a notice names it.
    """
    failures: list[str] = []

    def read(what: str, fact: Callable[[], T], unknown: T) -> T:
        try:
            return fact()
        except Exception as error:
            failures.append(f"{what} ({described(error)})")
            return unknown

    def layer_facts(layer: Any) -> LayerFacts:
        path = paths[id(layer)]
        return read(f"layer {path}", lambda: _layer(layer, path), LayerFacts(path))

    known: list[ModelLayer] = read("layers", lambda: model_layers(model), [])
    paths = {id(each.layer): each.path for each in known}
    order: list[Any] = read("layers", lambda: list(_in_order(model, paths, set())), [])
    outputs: list[Any] = read("outputs", lambda: _output_layers(model), [])
    facts = ModelFacts(
        layers=[layer_facts(layer) for layer in order],
        outputs=[paths[id(layer)] for layer in outputs if id(layer) in paths],
        loss=read("loss", lambda: loss_facts(model), LossFacts()),
        optimizer=read("optimizer", lambda: _optimizer(model), OptimizerFacts()),
        precision=read("precision", lambda: _precision(model), None),
        parameters=read("parameters", lambda: _parameters(model), ParameterFacts()),
        unused_inputs=read("inputs", lambda: _unused_inputs(model), ()),
        is_linear=read("activations", lambda: _is_linear(model, order), None),
    )
    if failures:
        more = f" and {len(failures) - 3} more" if len(failures) > 3 else ""
        reporter.notice(
            f"The diagnosis knows less of this model: it raised when gradwatch read its "
            f"{', its '.join(failures[:3])}{more}. Rules that need these facts find nothing; all "
            "others, and the measurements, go on."
        )
    return facts


def _in_order(holder: Any, known: Mapping[int, str], seen: set[int]) -> Iterator[Any]:
    """The layers as they are executed, as far as that is known; those inside others first."""
    # `layers` is in the order of execution in sequential and functional models.
    for layer in top_layers(holder):
        if id(layer) not in seen:
            seen.add(id(layer))
            yield from _in_order(layer, known, seen)
            if id(layer) in known:
                yield layer


def _layer(layer: Any, path: str) -> LayerFacts:
    return LayerFacts(
        path=path,
        class_name=type(layer).__name__,
        activation=_name_of(fact(layer, "activation")),
        units=_units(layer),
        trainable=bool(layer.trainable_weights) if layer.weights else None,
        dtype=str(layer.compute_dtype),
        rate=_dropout_rate(layer),
        is_inferring=_is_inferring(layer),
        is_fresh=_is_fresh(layer),
        momentum=_momentum(layer),
    )


def _dropout_rate(layer: Any) -> float | None:
    rate = fact(layer, "rate") if "Dropout" in type(layer).__name__ else None
    return float(rate) if isinstance(rate, int | float) else None


def _is_inferring(layer: Any) -> bool | None:
    """Whether a normalization uses its statistics even in training."""
    if not isinstance(layer, keras.layers.BatchNormalization):
        return None
    calls = [node.arguments.kwargs.get("training") for node in fact(layer, "_inbound_nodes", [])]
    return not layer.trainable or (bool(calls) and all(given is False for given in calls))


def _is_fresh(layer: Any) -> bool | None:
    """Whether a normalization has never updated its statistics."""
    if not isinstance(layer, keras.layers.BatchNormalization) or not layer.built:
        return None
    mean = keras.ops.convert_to_numpy(layer.moving_mean)
    variance = keras.ops.convert_to_numpy(layer.moving_variance)
    return bool((mean == 0).all() and (variance == 1).all())


def _momentum(layer: Any) -> float | None:
    """The share of its statistics that a normalization keeps in a step."""
    is_updated = _is_inferring(layer) is False
    return float(layer.momentum) if is_updated else None


def _parameters(model: Any) -> ParameterFacts:
    if not model.built:
        return ParameterFacts()
    return ParameterFacts(
        total=sum(math.prod(v.shape) for v in model.weights),
        trainable=sum(math.prod(v.shape) for v in model.trainable_weights),
    )


def _unused_inputs(model: Any) -> Sequence[str]:
    """The names of the inputs of a functional model that no operation gets."""
    by_depth = fact(model, "_nodes_by_depth", None)
    if not isinstance(by_depth, dict):
        return ()
    nodes = [node for nodes in by_depth.values() for node in nodes]
    used = {id(tensor) for node in nodes for tensor in node.input_tensors}
    used |= {id(tensor) for tensor in keras.tree.flatten(model.outputs)}
    return [x.name for x in keras.tree.flatten(model.inputs) if id(x) not in used]


_LINEAR = (
    "Dense", "Conv1D", "Conv2D", "Conv3D", "InputLayer", "Flatten", "Reshape", "Dropout", "Permute",
    "BatchNormalization", "AveragePooling1D", "AveragePooling2D", "GlobalAveragePooling1D",
    "GlobalAveragePooling2D", "Rescaling", "Normalization", "ZeroPadding2D", "Sequential",
    "Functional",
)  # fmt: skip


def _is_linear(model: Any, order: Sequence[Any]) -> bool | None:
    """Whether all layers are linear, but for the activation of the last; None if unknown."""
    is_sequence = isinstance(model, keras.Sequential)
    operations = model.layers if is_sequence else fact(model, "operations", None)
    is_known = isinstance(operations, list) and bool(order)
    if not is_known or not all(isinstance(each, keras.Layer) for each in operations):
        return None
    if any(type(layer).__name__ not in _LINEAR for layer in order):
        return False
    activations = [_name_of(fact(layer, "activation")) for layer in order]
    return all(name in (None, "linear") for name in activations[:-1])


def _name_of(function: Any) -> str | None:
    name = getattr(function, "__name__", None)
    return name if isinstance(name, str) and name.isidentifier() else None


def _units(layer: Any) -> int | None:
    """How many features or channels it returns."""
    filters = fact(layer, "filters")
    if isinstance(filters, int):
        return filters
    nodes = fact(layer, "_inbound_nodes", [])
    outputs = keras.tree.flatten(nodes[0].outputs) if nodes else []
    if len(outputs) == 1 and len(outputs[0].shape) > 1 and outputs[0].shape[-1] is not None:
        return int(outputs[0].shape[-1])
    units = fact(layer, "units")
    return units if isinstance(units, int) else None


def _output_layers(model: Any) -> list[Any]:
    """The layers that compute what the model returns; none where that is not known."""
    if isinstance(model, keras.Sequential):
        last = top_layers(model)[-1:]
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


def loss_facts(model: Any) -> LossFacts:
    """What is known of the loss that a model was compiled with."""
    is_keras_s_own = (
        type(model).compute_loss is keras.Model.compute_loss
        and type(model).train_step is keras.Model.train_step
    )
    loss = getattr(model, "loss", None)
    several = list(_single_losses(loss))
    loss = several[0] if len(several) == 1 else None
    if loss is None or not is_keras_s_own:
        return LossFacts(is_of_own_step=type(model).train_step is not keras.Model.train_step)
    return single_loss_facts(keras.losses.get(loss))


def single_loss_facts(loss: Any) -> LossFacts:
    """What is known of one loss: an object, or a function. Nothing if it is not one of Keras's."""
    is_object = isinstance(loss, keras.losses.Loss)
    if is_object and type(loss).__name__ == "LossFunctionWrapper":
        loss, is_object = loss.fn, False
    if not is_of_keras(type(loss) if is_object else loss):
        return LossFacts()
    if not is_object:
        # A function of Keras, reduced by compile(); it takes probabilities by default.
        name = str(loss.__name__)
        return LossFacts(name, False if "crossentropy" in name else None, None, None)
    config = loss.get_config()
    return LossFacts(
        name=_snake(type(loss).__name__),
        from_logits=config.get("from_logits"),
        reduction=config.get("reduction"),
        label_smoothing=config.get("label_smoothing"),
    )


def _single_losses(loss: Any) -> Iterator[Any]:
    """The losses in what a model was compiled with, which may be nested as its outputs are."""
    if isinstance(loss, Mapping | list | tuple):
        for each in loss.values() if isinstance(loss, Mapping) else loss:
            yield from _single_losses(each)
    else:
        yield loss


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _optimizer(model: Any) -> OptimizerFacts:
    optimizers = find_optimizers(model)
    if len(optimizers) != 1:
        return OptimizerFacts()
    outer, updating = optimizers[0], updating_optimizers(optimizers)
    scale = None
    if isinstance(outer, keras.optimizers.LossScaleOptimizer):
        # It has a scale that changes only once it is built.
        scale = _number(getattr(outer, "dynamic_scale", outer.initial_scale))
    if len(updating) != 1:
        return OptimizerFacts(loss_scale=scale)
    inner = updating[0]
    return OptimizerFacts(
        name=type(inner).__name__.lower(),
        learning_rate=_learning_rate(inner),
        is_scheduled=isinstance(
            inner._learning_rate, keras.optimizers.schedules.LearningRateSchedule
        ),
        loss_scale=scale,
        **{name: _number(fact(inner, own)) for name, own in _CONSTANTS.items()},
    )


_CONSTANTS = {
    "weight_decay": "weight_decay",
    "epsilon": "epsilon",
    "beta_1": "beta_1",
    "beta_2": "beta_2",
    "momentum": "momentum",
    "clip_norm": "clipnorm",
    "clip_value": "clipvalue",
}


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
