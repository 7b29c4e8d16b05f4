"""The meaning of recorded numbers in words: what was measured, and when in the step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from gradwatch.capture.state import EVERY_KIND
from gradwatch.core import KerasOptimizer, Kind
from gradwatch.watches import VITAL_KINDS

_UPDATE = "change of the variable in the step: its value after minus before"
_DEAD_UNIT = (
    "1 for each unit whose outputs were 0 for the whole batch, else 0: the mean is the share of "
    "dead units, the sum their number"
)
_SATURATED = (
    "1 for each output within 0.01 of a bound of its sigmoid or tanh, else 0: the mean is the "
    "share of saturated outputs"
)
_STATE = {kind: kind.meaning for kind in (*EVERY_KIND, *VITAL_KINDS)}

RECORDED: Mapping[Kind, str] = {
    Kind.GRADIENT: "gradient that the loop gave to record() or measure(), as it was then",
    Kind.APPLIED_GRADIENT: "gradient that the loop says its update rule used",
    Kind.WEIGHT: "value of the variable when the loop gave it to record() or measure()",
    Kind.UPDATE: _UPDATE,
    Kind.LOSS: "loss of the step, as the loop gave it",
    Kind.OUTPUT: "what the layer returned in the step, or what the loop gave as its output",
    Kind.OUTPUT_GRADIENT: "gradient of what the loop differentiated with respect to the layer's "
    "output, with a loss scale still in it if the loss was scaled",
    Kind.DEAD_UNIT: _DEAD_UNIT,
    Kind.SATURATED: _SATURATED,
    **_STATE,
}
"""In hand-written loops."""

TAPED: Mapping[Kind, str] = {
    Kind.GRADIENT: "gradient that tape.gradient() returned: of its target, before any clipping, "
    "with a loss scale still in it if the target was scaled",
    Kind.WEIGHT: "value of the variable when tape.gradient() was called, before the step's update",
    Kind.LOSS: "target of tape.gradient(), summed over its elements",
}
"""From `Monitor.tape`."""

LINKED: Mapping[Kind, str] = {
    Kind.GRADIENT: "gradient that came to monitor.optax(), after what precedes it in the chain",
    Kind.APPLIED_GRADIENT: "gradient after the clipping that was given to monitor.optax()",
    Kind.WEIGHT: "value of the variable before the update",
    Kind.UPDATE: "what the transformations in monitor.optax() returned for the variable",
}
"""From a link of an `optax.chain`."""

_AT_STEP = "parameter's .grad when optimizer.step() was called"
_SINCE_BACKWARD = (
    "accumulated over backward() calls, with the loss scale of a GradScaler divided out"
)
_BEFORE_CLIPPING = (
    "before torch.nn.utils.clip_grad_norm_ or the like clipped it; after clipping by other means"
)

WATCHED: Mapping[Kind, str] = {
    Kind.GRADIENT: f"{_AT_STEP}: {_SINCE_BACKWARD}, {_BEFORE_CLIPPING}",
    Kind.APPLIED_GRADIENT: f"{_AT_STEP}: {_SINCE_BACKWARD}, after any clipping",
    Kind.WEIGHT: "value of the parameter after optimizer.step()",
    Kind.UPDATE: "change of the parameter in optimizer.step(): its value after minus before",
    **_STATE,
}
"""Of a torch module that `watch` follows."""

_OF_RANK: Mapping[Kind, str] = {
    Kind.SCALAR: "of this rank: step_seconds, the time of a step; own_seconds, what of it the rank "
    "was by itself before it waited for others, both on average since the last measured one; "
    "replica_of, the first rank that has a copy of the same weights; replica_hardware, which "
    "stands for what the rank computes on",
    Kind.LOSS: "loss of the step, as the loop of this rank gave it: of the rank's own part of the "
    "batch, unless the loop has averaged it",
}

REPLICATED: Mapping[Kind, str] = {
    **WATCHED,
    **_OF_RANK,
    Kind.GRADIENT: f"{_AT_STEP}: averaged over all ranks by DistributedDataParallel, "
    f"{_SINCE_BACKWARD}, {_BEFORE_CLIPPING}",
}
"""Of a module that several ranks have copies of."""

SHARDED: Mapping[Kind, str] = {
    **WATCHED,
    **_OF_RANK,
    Kind.GRADIENT: f"{_AT_STEP}, of the whole parameter: the shards of all ranks, reduced over "
    f"the ranks, {_SINCE_BACKWARD}, {_BEFORE_CLIPPING}",
}
"""Of a module whose parameters are spread over the ranks."""


def fit_meaning(optimizers: Sequence[KerasOptimizer], replicas: int = 1) -> Mapping[Kind, str]:
    """The meaning of the measurements of each kind in `fit`."""
    words = {
        Kind.WEIGHT: "value of the variable after the step",
        Kind.UPDATE: _UPDATE,
        Kind.GRADIENT: _joined(_computed, optimizers),
        Kind.APPLIED_GRADIENT: _joined(_applied, optimizers),
        Kind.OUTPUT: "what the layer returned in the training step",
        Kind.OUTPUT_GRADIENT: "gradient of the training loss with respect to what the layer "
        "returned, on the step's own batch, with any loss scale divided out",
        Kind.DEAD_UNIT: _DEAD_UNIT,
        Kind.SATURATED: _SATURATED,
        **_STATE,
    }
    if replicas > 1:
        reduced = _joined(partial(_reduced, replicas), optimizers)
        words |= {
            Kind.WEIGHT: "value of the variable after the step: the same on all replicas, or the "
            "first's of what each keeps for itself",
            Kind.GRADIENT: reduced,
            Kind.APPLIED_GRADIENT: reduced,
            Kind.LOSS: f"mean of the losses of {replicas} replicas, each on its share of the batch",
        }
    return words


class _Rule(NamedTuple):
    """An optimizer that updates weights, and the outermost one that holds it, or itself."""

    inner: KerasOptimizer
    outer: KerasOptimizer


def _rules(outer: KerasOptimizer) -> list[_Rule]:
    inner = getattr(outer, "inner_optimizer", outer)
    # Of a `MultiOptimizer`, those inside it.
    return [_Rule(each, outer) for each in getattr(inner, "optimizers", None) or [inner]]


def _joined(describe: Callable[[_Rule], str], optimizers: Sequence[KerasOptimizer]) -> str:
    texts = {rule.inner.name: describe(rule) for outer in optimizers for rule in _rules(outer)}
    if len(set(texts.values())) <= 1:
        return next(iter(texts.values()), "gradient of the training loss")
    return "; ".join(f"{name}: {text}" for name, text in texts.items())


def _computed(rule: _Rule) -> str:
    words = ["gradient of the training loss on the step's own batch", *_scaling(rule)]
    inner = rule.inner
    if inner.gradient_accumulation_steps:
        words.append(f"of one micro-batch of {inner.gradient_accumulation_steps}")
    if _clipping(inner):
        words.append(f"before clipping ({_clipping(inner)})")
    return ", ".join(words)


def _reduced(replicas: int, rule: _Rule) -> str:
    words = [f"gradient that the update rule used, the sum over {replicas} replicas"]
    words += _scaling(rule)
    clipping = _clipping(rule.inner)
    words.append(f"each clipped by itself before ({clipping})" if clipping else "not clipped")
    words.append("of each one's share of the training loss")
    return ", ".join(words)


def _applied(rule: _Rule) -> str:
    inner = rule.inner
    words = ["gradient that the update rule used"]
    if inner.gradient_accumulation_steps:
        words.append(f"mean of {inner.gradient_accumulation_steps} micro-batches")
    words.append(f"after clipping ({_clipping(inner)})" if _clipping(inner) else "not clipped")
    return ", ".join(words)


def _scaling(rule: _Rule) -> list[str]:
    is_scaled = hasattr(rule.outer, "inner_optimizer") or rule.inner.loss_scale_factor
    return ["with the loss scale divided out"] if is_scaled else []


def _clipping(optimizer: KerasOptimizer) -> str:
    limits = {n: getattr(optimizer, n, None) for n in ("clipnorm", "clipvalue", "global_clipnorm")}
    return ", ".join(f"{name}={value}" for name, value in limits.items() if value is not None)
