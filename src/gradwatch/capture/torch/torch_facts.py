"""The facts about a torch module that a diagnosis uses."""

from collections.abc import Iterator

from gradwatch.core import LayerFacts, ModelFacts, OptimizerFacts, TorchModule, TorchOptimizer

_ACTIVATIONS = {
    "ReLU": "relu", "ReLU6": "relu6", "Sigmoid": "sigmoid", "Tanh": "tanh", "Softmax": "softmax",
    "Hardsigmoid": "hard_sigmoid", "Hardtanh": "hard_tanh",
}  # fmt: skip


def facts_of(module: TorchModule, optimizer: TorchOptimizer, group: str) -> ModelFacts:
    """The facts of a module: its submodules in the order in which they were made.

    The loss, and the order in which submodules are called, are not known.
    """
    inner = getattr(module, "_orig_mod", module)  # under torch.compile
    inner = getattr(inner, "module", inner)  # under DistributedDataParallel
    layers = [_layer(each, path) for path, each in _in_order(inner, group)]
    rates = {float(part["lr"]) for part in optimizer.param_groups if "lr" in part}
    return ModelFacts(
        layers=layers,
        optimizer=OptimizerFacts(
            name=type(optimizer).__name__.lower(),
            learning_rate=rates.pop() if len(rates) == 1 else None,
        ),
    )


def _in_order(holder: TorchModule, path: str) -> Iterator[tuple[str, TorchModule]]:
    """The submodules with their paths, inner ones first."""
    for name, each in holder.named_children():
        inside = f"{path}/{name}" if path else name
        yield from _in_order(each, inside)
        yield inside, each


def _layer(module: TorchModule, path: str) -> LayerFacts:
    parameters = list(module.parameters())
    units = getattr(module, "out_features", getattr(module, "out_channels", None))
    return LayerFacts(
        path=path,
        class_name=type(module).__name__,
        activation=_ACTIVATIONS.get(type(module).__name__),
        units=units if isinstance(units, int) else None,
        trainable=any(p.requires_grad for p in parameters) if parameters else None,
        dtype=str(parameters[0].dtype).removeprefix("torch.") if parameters else None,
    )
