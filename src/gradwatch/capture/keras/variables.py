"""The variables of a Keras model: their unique paths and the layers that own them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
from keras.src.backend.common.stateless_scope import in_stateless_scope
from keras.src.backend.common.variables import get_autocast_scope

from gradwatch.capture.gates import slices_of
from gradwatch.capture.keras.model_parts import top_layers
from gradwatch.core import KerasModel, Kind, Site, SiteInfo, Tensor


@dataclass(frozen=True)
class ModelVariable:
    """A variable of a model under its unique path."""

    variable: Any
    path: str
    owners: tuple[Any, ...]
    layer_indices: tuple[int, ...]

    def describe(self, kind: Kind) -> list[SiteInfo]:
        """The variable as a site of that kind, and the slices of it that have a name."""
        whole = SiteInfo(
            site=Site(kind, self.path),
            shape=tuple(self.variable.shape),
            dtype=str(self.variable.dtype),
            part=self.variable.name,
            trainable=bool(self.variable.trainable),
            layer_indices=self.layer_indices,
            owners=self.owners,
        )
        return [whole, *slices_of(whole)]


def model_variables(model: KerasModel) -> list[ModelVariable]:
    """All weights of the model in network order, each once, also if shared."""
    variables = list({id(v): v for v in _in_network_order(model)}.values())
    owners: dict[int, tuple[Any, ...]] = {}
    for chain in _owner_chains(model):
        for variable in chain[-1].weights:
            # Later chains are deeper, so the innermost owner's chain is kept.
            owners[id(variable)] = chain
    indices: dict[int, list[int]] = {}
    layers = top_layers(model)
    for i, layer in enumerate(layers):
        for variable in layer.weights:
            indices.setdefault(id(variable), []).extend((i, i - len(layers)))
    chains = [owners.get(id(v), (model,)) for v in variables]
    return [
        ModelVariable(variable, path, chain, tuple(indices.get(id(variable), ())))
        for variable, path, chain in zip(variables, _unique(variables, chains), chains, strict=True)
    ]


def sites_of(model: KerasModel) -> list[SiteInfo]:
    """Every site of the model that can be watched, in network order."""
    trainable = {id(v) for v in model.trainable_variables}
    found = []
    for each in model_variables(model):
        found += each.describe(Kind.WEIGHT)
        if id(each.variable) in trainable:
            for kind in (Kind.GRADIENT, Kind.APPLIED_GRADIENT, Kind.UPDATE):
                found += each.describe(kind)
    return found


Variables = Mapping[str, tuple[Any, tuple[int, int] | None]]
"""By path, a variable and, if the path is of a slice, its columns."""


def variables_by_path(model: KerasModel) -> Variables:
    return {
        info.path: (each.variable, info.columns)
        for each in model_variables(model)
        for info in each.describe(Kind.WEIGHT)
    }


def _in_network_order(model: KerasModel) -> Iterator[Any]:
    # `model.weights` lists the trainable ones first; a reader looks for a
    # layer's variables side by side.
    for layer in top_layers(model):
        yield from layer.weights
    yield from model.weights


def _owner_chains(model: KerasModel) -> Iterator[tuple[Any, ...]]:
    """Chains of nested layers from the model down, breadth first; a shared layer once."""
    seen = {id(model)}
    level: list[tuple[Any, ...]] = [(model,)]
    while level:
        yield from level
        deeper = []
        for chain in level:
            for layer in chain[-1]._layers:
                if id(layer) not in seen:
                    seen.add(id(layer))
                    deeper.append((*chain, layer))
        level = deeper


def _unique(variables: list[Any], chains: list[tuple[Any, ...]]) -> list[str]:
    """The variables' paths, with `#2`, `#3`, ... where they repeat.

    Two layers of one name are told apart at the layer's place in the path, so
    that each keeps its variables together: `net/block/kernel`, `net/block#2/kernel`.
    """
    layers_at: dict[str, list[int]] = {}
    taken: set[str] = set()
    paths = []
    for variable, chain in zip(variables, chains, strict=True):
        layer, slash, name = variable.path.rpartition("/")
        namesakes = layers_at.setdefault(layer, [])
        if id(chain[-1]) not in namesakes:
            namesakes.append(id(chain[-1]))
        path = _numbered(layer, namesakes.index(id(chain[-1])) + 1) + slash + name
        n = 1
        while _numbered(path, n) in taken:
            n += 1
        taken.add(_numbered(path, n))
        paths.append(_numbered(path, n))
    return paths


def _numbered(name: str, n: int) -> str:
    return name if n == 1 else f"{name}#{n}"


def current_values(variables: Sequence[Any]) -> list[Tensor]:
    """The variables' values, as `variable.value` would give them."""
    if keras.backend.backend() != "torch" or in_stateless_scope() or get_autocast_scope():
        return [variable.value for variable in variables]
    # What that comes to here; with hundreds of variables, a look at the scopes for each adds up.
    values = [variable._value for variable in variables]
    return [v.value if x is None else x for v, x in zip(variables, values, strict=True)]


def fit_of(model: KerasModel) -> Any:
    """Identifies a `fit` of the model: each has a History of its own."""
    return vars(model).get("history")
