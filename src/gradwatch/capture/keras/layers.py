"""The layers of a Keras model: their unique paths, and the sites of their outputs."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, NamedTuple

import keras

from gradwatch.capture.keras.keras_attention import has_attention
from gradwatch.capture.keras.keras_vitals import places_of, vital_infos
from gradwatch.capture.keras.model_parts import fact, top_layers
from gradwatch.capture.keras.variables import model_variables
from gradwatch.core import Kind, Site, SiteInfo
from gradwatch.watches import ATTENTION_KINDS

_BOUNDS = {
    "sigmoid": (0.0, 1.0),
    "hard_sigmoid": (0.0, 1.0),
    "tanh": (-1.0, 1.0),
    "hard_tanh": (-1.0, 1.0),
}


@dataclass(frozen=True)
class ModelLayer:
    """A layer of a model under its unique path."""

    layer: Any
    path: str
    layer_indices: tuple[int, ...]

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Between which values its outputs lie, where it ends in a sigmoid or tanh."""
        # A recurrent layer's activation is that of its cell's inside, but for the simplest one.
        is_recurrent = isinstance(self.layer, keras.layers.RNN)
        if not isinstance(self.layer, keras.layers.SimpleRNN) and (
            is_recurrent or fact(self.layer, "state_size") is not None
        ):
            return None
        activation = fact(self.layer, "activation")
        if getattr(activation, "__module__", "").partition(".")[0] != "keras":
            return None
        return _BOUNDS.get(getattr(activation, "__name__", ""))

    @cached_property
    def unit_axis(self) -> int:
        """The axis of the outputs along which its units, or channels, are."""
        # Kept: to look for what a layer has not takes long on torch, which asks at each step.
        return 1 if fact(self.layer, "data_format") == "channels_first" else -1

    def describe(self, kind: Kind) -> SiteInfo:
        return SiteInfo(
            site=Site(kind, self.path),
            shape=_shape_of_a_sample(self.layer),
            dtype=str(fact(self.layer, "compute_dtype", "")),
            part="output",
            trainable=bool(fact(self.layer, "trainable", True)),
            layer_indices=self.layer_indices,
            # Only itself: a type selects layers of that type, not what is inside them.
            owners=(self.layer,),
        )


def model_layers(model: Any) -> list[ModelLayer]:
    """The layers of a model, nested ones after those that hold them; each once."""
    # Where layers share a path, their variables' paths tell them apart; so do these.
    known: dict[int, str] = {}
    for each in model_variables(model):
        layer = each.owners[-1]
        if each.variable.path.rpartition("/")[0] == layer.path:
            known.setdefault(id(layer), each.path.rpartition("/")[0])
    top = top_layers(model)
    indices: dict[int, list[int]] = {}
    for i, layer in enumerate(top):
        indices.setdefault(id(layer), []).extend((i, i - len(top)))
    return [
        ModelLayer(layer, path, tuple(indices.get(id(layer), ())))
        for layer, path in _walk(model, _root(model, known), known, {id(model)})
        # An input layer returns what it is given, and Keras does not call it.
        if not isinstance(layer, keras.layers.InputLayer)
    ]


def inside_recurrent(model: Any) -> set[int]:
    """The ids of layers that a recurrent layer calls once per time step: cells and theirs."""
    layers = model._flatten_layers()
    recurrent = [layer for layer in layers if isinstance(layer, keras.layers.RNN)]
    return {id(each) for layer in recurrent for each in layer.cell._flatten_layers()}


class KnownLayers(NamedTuple):
    """The layers of a model as they are at a time."""

    every: list[Any]
    """Without the model itself."""
    by_path: dict[str, ModelLayer]
    inside_recurrent: set[int]


class LayersOf:
    """Looks up the layers of a model, anew only where there are others or they are built since.

    Where a step is not compiled, they are asked for at each one that is measured.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._state: list[tuple[int, bool]] | None = None
        self._known = KnownLayers([], {}, set())

    def now(self) -> KnownLayers:
        every = [layer for layer in self._model._flatten_layers() if layer is not self._model]
        state = [(id(layer), layer.built) for layer in every]
        if state != self._state:
            by_path = {each.path: each for each in model_layers(self._model)}
            self._known = KnownLayers(every, by_path, inside_recurrent(self._model))
            self._state = state
        return self._known


def output_sites_of(model: Any) -> list[SiteInfo]:
    found: list[SiteInfo] = []
    for each in model_layers(model):
        kinds = [Kind.OUTPUT, Kind.OUTPUT_GRADIENT, Kind.DEAD_UNIT]
        kinds += [Kind.SATURATED] if each.bounds else []
        kinds += ATTENTION_KINDS if has_attention(each.layer) else []
        found.extend(each.describe(kind) for kind in kinds)
    return found


def vital_sites_of(model: Any) -> list[SiteInfo]:
    """The sites of residual branches and logits."""
    return vital_infos(
        places_of(model, {id(each.layer): each.path for each in model_layers(model)})
    )


def _root(model: Any, known: dict[int, str]) -> str:
    """What the paths of a model's layers begin with: its name, or nothing if functional."""
    paths = [known[id(layer)] for layer in model._layers if id(layer) in known]
    named = any(path.startswith(f"{model.name}/") for path in paths) or not paths
    return str(model.name) if named else ""


def _walk(
    holder: Any, root: str, known: dict[int, str], seen: set[int]
) -> Iterator[tuple[Any, str]]:
    """The layers inside a layer with their paths.

    Not Keras's `layer.path`: without variables, that depends on where the layer was built last.
    """
    taken = set(known.values())
    for layer in holder._layers:
        if id(layer) in seen:
            continue
        seen.add(id(layer))
        path = known.get(id(layer))
        if path is None:
            wish = f"{root}/{layer.name}" if root else str(layer.name)
            numbered = (f"{wish}#{n}" if n > 1 else wish for n in count(1))
            path = known[id(layer)] = next(name for name in numbered if name not in taken)
            taken.add(path)
        yield layer, path
        yield from _walk(layer, path, known, seen)


def _shape_of_a_sample(layer: Any) -> tuple[int, ...]:
    """The output's shape without the batch; () where it is not known beforehand."""
    nodes = fact(layer, "_inbound_nodes", [])
    outputs = keras.tree.flatten(nodes[0].outputs) if nodes else []
    if len(outputs) != 1 or None in outputs[0].shape[1:]:
        return ()
    return tuple(outputs[0].shape[1:])
