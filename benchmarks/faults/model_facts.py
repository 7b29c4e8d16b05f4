"""What a diagnosis may know of a Keras model, as `gradwatch.diagnose.ModelFacts` in JSON."""

from __future__ import annotations

import re
from typing import Any

import keras
import numpy as np

from .datasets import Data
from .program import Program


def facts(program: Program, model: Any, data: Data) -> dict[str, Any]:
    """The facts of a program's model."""
    layers = [] if program.network == "gan" else [_layer(model, each) for each in model.layers]
    layers = [layer for layer in layers if layer["class_name"] != "InputLayer"]
    optimizer = model.optimizer if program.network != "gan" else model.generator_optimizer
    rate = getattr(optimizer, "_learning_rate", None)
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    return {
        "layers": layers,
        "outputs": ["net/output"] if layers else [],
        "loss": _loss(model),
        "optimizer": {
            "name": type(inner).__name__.lower(),
            "learning_rate": learning_rate(optimizer),
            "is_scheduled": isinstance(rate, keras.optimizers.schedules.LearningRateSchedule),
            "loss_scale": loss_scale(optimizer),
        },
        "targets_are_whole": bool(np.all(data.y == np.round(data.y))),
        "batch_size": program.batch,
        "precision": program.policy,
    }


def learning_rate(optimizer: Any) -> float:
    """The learning rate now."""
    return float(keras.ops.convert_to_numpy(optimizer.learning_rate))


def loss_scale(optimizer: Any) -> float | None:
    """The loss scale now; None without loss scaling."""
    if not isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return None
    # It has a scale that changes only once it is built.
    scale = getattr(optimizer, "dynamic_scale", optimizer.initial_scale)
    return float(keras.ops.convert_to_numpy(scale))


def _layer(model: Any, layer: Any) -> dict[str, Any]:
    activation = getattr(layer, "activation", None)
    shape = getattr(layer, "output", None)
    return {
        "path": f"{model.name}/{layer.name}",
        "class_name": type(layer).__name__,
        "activation": getattr(activation, "__name__", None),
        "units": None if shape is None else int(shape.shape[-1]),
        "trainable": bool(layer.trainable_weights) if layer.weights else None,
        "dtype": str(layer.compute_dtype),
    }


def _loss(model: Any) -> dict[str, Any]:
    loss = model.loss
    if loss is None:
        return {"is_of_own_step": type(model).train_step is not keras.Model.train_step}
    if not isinstance(loss, keras.losses.Loss):
        return {"name": getattr(loss, "__name__", None)}
    config = loss.get_config()
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", type(loss).__name__).lower()
    return {
        "name": name,
        "from_logits": config.get("from_logits"),
        "reduction": config.get("reduction"),
    }
