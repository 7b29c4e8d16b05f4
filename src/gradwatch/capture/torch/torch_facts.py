"""The facts about a torch module that a diagnosis uses."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch

from gradwatch.capture.torch.graph_nodes import ancestors, result_shape, swapped_axes
from gradwatch.capture.torch.layer_graph import SeenLayers, read_layers
from gradwatch.capture.torch.loss_graph import SeenLoss, read_loss
from gradwatch.capture.torch.loss_terms import LossTerm
from gradwatch.capture.torch.misused import misused
from gradwatch.capture.torch.softmax_scale import softmax_scale
from gradwatch.capture.variable_names import unwrapped
from gradwatch.core import (
    LayerFacts,
    LossFacts,
    ModelFacts,
    OptimizerFacts,
    ParameterFacts,
    TorchModule,
    TorchOptimizer,
)

_ACTIVATIONS = {
    "ReLU": "relu", "ReLU6": "relu6", "Sigmoid": "sigmoid", "Tanh": "tanh", "Softmax": "softmax",
    "Hardsigmoid": "hard_sigmoid", "Hardtanh": "hard_tanh", "LogSoftmax": "log_softmax",
}  # fmt: skip
_NORMALIZATION = torch.nn.modules.batchnorm._NormBase
_FIRST_CALLS = 2
"""Of a normalization, before the first backward pass: that of a discriminator is called twice."""
_FEW = 0.1
"""Of the parameters that learn from a loss."""
_DROPOUT = torch.nn.modules.dropout._DropoutNd


def facts_of(module: TorchModule, optimizer: TorchOptimizer, group: str) -> ModelFacts:
    """The facts of a module: its submodules in the order in which they were made.

    The loss, and the order in which submodules are called, are not known; see `with_graph`.
    """
    inner = unwrapped(module)
    parameters = list(inner.parameters())
    held = {id(p) for part in optimizer.param_groups for p in part["params"]}
    learned = [p for p in parameters if p.requires_grad and id(p) in held]
    return ModelFacts(
        layers=[_layer(each, path) for path, each in _in_order(inner, group)],
        optimizer=_optimizer(optimizer),
        parameters=ParameterFacts(
            sum(p.numel() for p in parameters), sum(p.numel() for p in learned)
        ),
    )


def with_graph(facts: ModelFacts, root: Any, module: TorchModule, group: str) -> ModelFacts:
    """The facts, and what the autograd graph of the loss tells; `root` is the loss's node."""
    seen = read_loss(root)
    loss = replace(seen.facts, scale=softmax_scale(root), misuses=misused(root))
    known = replace(facts, loss=loss)
    if seen.term is None:
        return known
    owners = owners_of(module, group)
    layers = read_layers(seen.term.output, owners)
    are_all_seen = set(layers.order) == set(owners.values())
    known = replace(known, loss=replace(known.loss, swapped=swapped_axes(seen.term.output)))
    if not layers.last:
        known = replace(known, loss=replace(known.loss, activation=seen.term.activation))
    return replace(
        known,
        layers=_reordered(facts, layers, seen, are_all_seen),
        outputs=[layers.last] if layers.last else (),
        # What is computed without a graph may be anything.
        is_linear=layers.is_linear if are_all_seen else None,
    )


def functional_activations(facts: ModelFacts) -> dict[str, str]:
    """The activations that are no modules, by the path of the layer that they are applied to."""
    following = {
        layer.path: _ACTIVATIONS.get(after.class_name or "")
        for layer, after in pairwise(facts.layers)
    }
    # Only a module of a sequence has one place; others may be called anywhere.
    anywhere = {
        _ACTIVATIONS.get(layer.class_name or "")
        for layer in facts.layers
        if not layer.path.rpartition("/")[2].isdigit()
    }
    return {
        layer.path: layer.activation
        for layer in facts.layers
        if layer.activation is not None
        and layer.class_name not in _ACTIVATIONS
        and layer.activation not in (following.get(layer.path), *anywhere)
    }


def parameters_of(root: Any) -> dict[int, Any]:
    """The parameters that the graph of a loss leads to, by their ids."""
    leaves = (getattr(node, "variable", None) for node in ancestors(root, 20_000))
    # Inputs may need gradients, too.
    return {id(x): x for x in leaves if isinstance(x, torch.nn.Parameter)}


def owners_of(module: TorchModule, group: str) -> dict[int, str]:
    """The path of the submodule that each parameter belongs to, by the parameter's id."""
    prefix = f"{group}/" if group else ""
    module = unwrapped(module)
    return {
        id(parameter): prefix + name.rpartition(".")[0].replace(".", "/")
        for name, parameter in module.named_parameters()
    }


def _reordered(
    facts: ModelFacts, seen: SeenLayers, loss: SeenLoss, are_all_seen: bool
) -> list[LayerFacts]:
    """The layers in the order of execution, if that is known of all, with their activations."""
    layers = [
        replace(layer, activation=layer.activation or seen.activations.get(layer.path))
        for layer in facts.layers
    ]
    term = loss.term
    if term is not None and seen.last:
        layers = [
            replace(layer, activation=term.activation, units=_units(term, layer.units))
            if layer.path == seen.last
            else layer
            for layer in layers
        ]
    return _in_order_of(seen.order, layers) if are_all_seen else layers


def _in_order_of(order: Sequence[str], layers: Sequence[LayerFacts]) -> list[LayerFacts]:
    """The layers sorted; those without parameters stay behind the one before them."""
    place = {path: i for i, path in enumerate(order)}
    last, places = -1, []
    for layer in layers:
        inside = [i for path, i in place.items() if path.startswith(f"{layer.path}/")]
        last = place.get(layer.path, max(inside, default=last))
        places.append(last)
    return [layers[i] for i in sorted(range(len(layers)), key=lambda i: places[i])]


def _units(term: LossTerm, known: int | None) -> int | None:
    """How many numbers the loss receives of a sample, or classes it distinguishes."""
    shape = result_shape(term.output)
    if not shape:
        return known
    if term.axis and -term.axis <= len(shape):
        return shape[term.axis]
    return 1 if len(shape) == 1 else shape[-1] if len(shape) == 2 else known


def _in_order(holder: TorchModule, path: str) -> Iterator[tuple[str, TorchModule]]:
    """The submodules with their paths, inner ones first."""
    for name, each in holder.named_children():
        inside = f"{path}/{name}" if path else name
        yield from _in_order(each, inside)
        yield inside, each


def _layer(module: TorchModule, path: str) -> LayerFacts:
    parameters = list(module.parameters())
    units = getattr(module, "out_features", getattr(module, "out_channels", None))
    has_modes = isinstance(module, _NORMALIZATION | _DROPOUT)
    return LayerFacts(
        path=path,
        class_name=type(module).__name__,
        activation=_ACTIVATIONS.get(type(module).__name__),
        units=units if isinstance(units, int) else None,
        trainable=any(p.requires_grad for p in parameters) if parameters else None,
        dtype=str(parameters[0].dtype).removeprefix("torch.") if parameters else None,
        rate=float(module.p) if isinstance(module, _DROPOUT) else None,
        is_inferring=not module.training if has_modes else None,
        is_fresh=_is_fresh(module) if isinstance(module, _NORMALIZATION) else None,
        momentum=_momentum(module) if isinstance(module, _NORMALIZATION) else None,
    )


def _is_fresh(module: Any) -> bool | None:
    """Whether the statistics of a normalization are those of its start, but for the first step."""
    updates = module.num_batches_tracked
    return None if updates is None else int(updates) <= (_FIRST_CALLS if module.training else 0)


def _momentum(module: Any) -> float | None:
    """The share of its statistics that a normalization keeps in a step; torch tells the rest."""
    is_updated = module.training and module.track_running_stats and module.momentum is not None
    return 1.0 - float(module.momentum) if is_updated else None


def _optimizer(optimizer: TorchOptimizer) -> OptimizerFacts:
    def constant(name: str, index: int | None = None) -> float | None:
        """The number that all parameter groups have in common."""
        values = set()
        for part in optimizer.param_groups:
            value = part.get(name)
            value = value[index] if index is not None and isinstance(value, tuple | list) else value
            if isinstance(value, int | float) and not isinstance(value, bool):
                values.add(float(value))
        return values.pop() if len(values) == 1 else None

    rate = constant("lr")
    beta_2 = constant("betas", 1)
    return OptimizerFacts(
        name=type(optimizer).__name__.lower(),
        learning_rate=rate,
        # A scheduler counts the optimizer's steps.
        is_scheduled=hasattr(optimizer.step, "_wrapped_by_lr_sched") or None,
        weight_decay=constant("weight_decay"),
        epsilon=constant("eps"),
        beta_1=constant("betas", 0),
        beta_2=beta_2 if beta_2 is not None else constant("alpha"),
        momentum=constant("momentum"),
    )


def with_others(
    loss: LossFacts, own: Collection[int], reached: Mapping[int, Any], others: Sequence[str]
) -> LossFacts:
    """The facts of a loss that passes through other groups, perhaps through an adversary.

    `own` has the ids of the parameters of the module and its optimizer, `reached` all that the loss
    depends on.
    """
    strange = sum(p.numel() for key, p in reached.items() if key not in own)
    learned = sum(p.numel() for key, p in reached.items() if key in own)
    # A temperature or a few weights of the loss are no adversary.
    return replace(loss, through=others, is_through_others=strange > _FEW * learned)
