"""What a recorded number means, in words: tools that leave this open mislead people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import keras

from gradwatch.capture.keras.optimizers import innermost
from gradwatch.core import Kind


def meanings(optimizers: Sequence[Any], replicas: int = 1) -> Mapping[Kind, str]:
    """What the measurements of each kind are, given how the model is optimised.

    Args:
        optimizers: those of the model.
        replicas: how many train together, each on its share of the batch.
    """
    if replicas > 1:
        reduced = _joined(partial(_reduced, replicas), optimizers)
        first = (
            "value of the variable after the step: the same on all replicas, or the first's of "
            "what each keeps for itself"
        )
        return {
            **meanings(optimizers),
            Kind.WEIGHT: first,
            Kind.GRADIENT: reduced,
            Kind.APPLIED_GRADIENT: reduced,
            Kind.LOSS: f"mean of the losses of {replicas} replicas, each on its share of the batch",
        }
    return {
        Kind.WEIGHT: "value of the variable after the step",
        Kind.UPDATE: "change of the variable in the step: its value after minus before",
        Kind.GRADIENT: _joined(_computed, optimizers),
        Kind.APPLIED_GRADIENT: _joined(_applied, optimizers),
        Kind.OUTPUT: "what the layer returned in the training step",
        Kind.OUTPUT_GRADIENT: "gradient of the training loss with respect to what the layer "
        "returned, on the step's own batch, with any loss scale divided out",
        Kind.DEAD_UNIT: "1 for each unit whose outputs were 0 for the whole batch, else 0: "
        "the mean is the share of dead units, the sum their number",
        Kind.SATURATED: "1 for each output within 0.01 of a bound of its sigmoid or tanh, else 0: "
        "the mean is the share of saturated outputs",
    }


def _joined(describe: Any, optimizers: Sequence[Any]) -> str:
    texts = {o.name: describe(o) for o in optimizers}
    if len(set(texts.values())) <= 1:
        return next(iter(texts.values()), "gradient of the training loss")
    return "; ".join(f"{name}: {text}" for name, text in texts.items())


def _computed(optimizer: Any) -> str:
    inner = innermost(optimizer)
    words = ["gradient of the training loss on the step's own batch"]
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer) or inner.loss_scale_factor:
        words.append("with the loss scale divided out")
    if inner.gradient_accumulation_steps:
        words.append(f"of one micro-batch of {inner.gradient_accumulation_steps}")
    if _clipping(inner):
        words.append(f"before clipping ({_clipping(inner)})")
    return ", ".join(words)


def _reduced(replicas: int, optimizer: Any) -> str:
    inner = innermost(optimizer)
    words = [f"gradient that the update rule used, the sum over {replicas} replicas"]
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer) or inner.loss_scale_factor:
        words.append("with the loss scale divided out")
    clipped = f"each clipped by itself before ({_clipping(inner)})"
    words.append(clipped if _clipping(inner) else "not clipped")
    words.append("of each one's share of the training loss")
    return ", ".join(words)


def _applied(optimizer: Any) -> str:
    inner = innermost(optimizer)
    words = ["gradient that the update rule used"]
    if inner.gradient_accumulation_steps:
        words.append(f"mean of {inner.gradient_accumulation_steps} micro-batches")
    words.append(f"after clipping ({_clipping(inner)})" if _clipping(inner) else "not clipped")
    return ", ".join(words)


def _clipping(optimizer: Any) -> str:
    limits = {n: getattr(optimizer, n, None) for n in ("clipnorm", "clipvalue", "global_clipnorm")}
    return ", ".join(f"{name}={value}" for name, value in limits.items() if value is not None)
