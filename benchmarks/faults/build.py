"""From a program's description to a compiled Keras model."""

from __future__ import annotations

import inspect
from typing import Any

import keras

from . import odd_layers
from .datasets import Data
from .networks import NETWORKS
from .program import Program


def build(program: Program, data: Data) -> Any:
    """The program's model, ready for `fit`."""
    if program.network == "gan":
        from .gan import Gan

        model = Gan(program.options.get("width", 24), program.rate)
        model.compile()
        return model
    options = {key: value for key, value in program.options.items() if value is not None}
    options.pop("last", None)
    units, last = options.pop("units", _units(data)), _last(program, data)
    network = NETWORKS[program.network]
    known = inspect.signature(network).parameters
    if not any(p.kind is p.VAR_KEYWORD for p in known.values()):
        options = {key: value for key, value in options.items() if key in known}
    keras.config.set_dtype_policy(program.policy)
    try:
        model = network(data.x.shape[1:], units, last, **options)
    finally:
        keras.config.set_dtype_policy("float32")
    compile_(model, program)
    return model


def compile_(model: Any, program: Program, rate: Any = None) -> None:
    """Compile it as the program says, or with another learning rate."""
    model.compile(
        optimizer(program, rate),
        loss(program),
        jit_compile=False,
        auto_scale_loss=program.fit.get("scale_loss", True),
    )


def optimizer(program: Program, rate: Any = None) -> Any:
    """The program's optimizer."""
    made = keras.optimizers.get({
        "class_name": program.optimizer,
        "config": {"learning_rate": 1.0, **program.optimizer_options},
    })  # fmt: skip
    config = made.get_config()
    config["learning_rate"] = schedule(program.rate if rate is None else rate)
    return type(made)(**{k: v for k, v in config.items() if k not in ("is_legacy_optimizer",)})


def schedule(spec: Any) -> Any:
    """A learning rate, or a schedule: its kind and numbers."""
    if not isinstance(spec, tuple):
        return spec
    kind, *numbers = spec
    schedules = keras.optimizers.schedules
    if kind == "warm-up":
        start, target, steps = numbers
        return schedules.CosineDecay(start, 400, warmup_target=target, warmup_steps=steps)
    if kind == "cosine":
        return schedules.CosineDecay(*numbers)
    if kind == "restarts":
        return schedules.CosineDecayRestarts(*numbers)
    if kind == "decay":
        return schedules.ExponentialDecay(*numbers)
    boundaries, values = numbers
    return schedules.PiecewiseConstantDecay(list(boundaries), list(values))


def loss(program: Program) -> Any:
    """The program's loss: a function of our own, or one of Keras's."""
    if program.loss in odd_layers.LOSSES:
        return odd_layers.LOSSES[program.loss]
    return keras.losses.get({
        "class_name": "".join(part.title() for part in program.loss.split("_")),
        "config": dict(program.loss_options),
    })  # fmt: skip


def _units(data: Data) -> int:
    if data.task == "classes":
        return int(data.truth.max()) + 1
    return data.truth.shape[1] if data.truth.ndim > 1 else 1


def _last(program: Program, data: Data) -> str | None:
    if "last" in program.options:
        last = program.options["last"]
        return None if last is None else str(last)
    return "softmax" if data.task == "classes" else None
