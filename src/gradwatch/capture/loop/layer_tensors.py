"""What layers returned in a step, and the gradients with respect to it, by site."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol

from gradwatch.capture.errors import WrongTypeError, WrongValueError
from gradwatch.capture.loop.shapes import common_framework, shape_of, shapes_agree
from gradwatch.capture.loop.trees import leaves
from gradwatch.capture.loop.variable_names import dtype_name, is_tensor, unique
from gradwatch.core import Kind, Site, SiteInfo
from gradwatch.measure import Framework, family, framework


class Found(NamedTuple):
    """A tensor, and what it is recorded as."""

    site: Site
    tensor: Callable[[], Any]
    """Gives it; it may have to be computed, which only those who measure it ask for."""


@dataclass(frozen=True)
class LayerTensors:
    """The tensors of layers in one step.

    Attributes:
        infos: all sites that there are to choose from.
        found: for each site the tensors that were found: a layer that is called twice
            has two, `net/a` and `net/a@2`; one that is not called has none.
        tensors: those tensors that exist already.
    """

    infos: Sequence[SiteInfo] = ()
    found: Mapping[Site, Sequence[Found]] = field(default_factory=dict)
    tensors: Sequence[Any] = ()


class HasLayerTensors(Protocol):
    """What `Monitor.outputs_of` gives."""

    def layer_tensors(self, prefix: str) -> LayerTensors:
        """The tensors that it has seen; paths begin with the prefix, if it is not empty."""


def layer_tensors(outputs: Any, gradients: Any, prefix: str) -> LayerTensors:
    """From what the user gave as `outputs=` and `output_gradients=`.

    Args:
        outputs: tensors by name, or what `Monitor.outputs_of` gave.
        gradients: tensors by name.
        prefix: what the paths begin with; may be empty.

    Raises:
        TypeError, ValueError: they are neither, or do not fit each other.
    """
    if hasattr(outputs, "layer_tensors"):
        if gradients is not None:
            raise WrongTypeError(
                "What outputs_of() gives holds the gradients too. Leave output_gradients= out."
            )
        seen: HasLayerTensors = outputs
        return seen.layer_tensors(prefix)
    values = _named("outputs", outputs, prefix)
    slopes = _named("output_gradients", gradients, prefix)
    for path, output in values.items():
        if output is None:
            raise WrongTypeError(f"outputs= has no tensor for {path!r}. Received: None")
        slope = slopes.get(path)
        if slope is not None and not shapes_agree(shape_of(output), shape_of(slope)):
            raise WrongValueError(
                f"The gradient with respect to the output {path!r} has the shape "
                f"{shape_of(slope)}, but the output itself has {shape_of(output)}."
            )
    own = common_framework([*values.values(), *slopes.values()])
    infos, found = [], {}
    paths = list(dict.fromkeys([*values, *slopes]))
    for i, path in enumerate(paths):
        tensors: dict[Kind, Callable[[], Any]] = {}
        if path in values:
            output = values[path]
            tensors[Kind.OUTPUT] = partial(itself, output)
            tensors[Kind.DEAD_UNIT] = partial(own.dead_units, output, unit_axis(own, output))
        if path in slopes:
            tensors[Kind.OUTPUT_GRADIENT] = partial(itself, slopes[path])
        for kind, tensor in tensors.items():
            site = Site(kind, path)
            found[site] = [Found(site, tensor)]
            infos.append(_info(site, values.get(path, slopes.get(path)), (i, i - len(paths))))
    existing = [x for x in (*values.values(), *slopes.values()) if x is not None]
    return LayerTensors(infos, found, existing)


def unit_axis(own: Framework, output: Any) -> int:
    """The axis along which the units, or channels, of an output are, by the framework's custom."""
    return 1 if own is framework("torch") and len(shape_of(output)) > 3 else -1


def under(prefix: str, path: str) -> str:
    """The path below the prefix."""
    return f"{prefix}/{path}" if prefix else path


def itself(tensor: Any) -> Any:
    """A tensor that need not be computed, for `Found`."""
    return tensor


def _named(what: str, given: Any, prefix: str) -> dict[str, Any]:
    """The tensors of a dict, or of a tree of them, by their paths."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        also = ", or what outputs_of() gives" if what == "outputs" else ""
        raise WrongTypeError(
            f'{what}= takes tensors by name{also}: {{"hidden": tensor}}. '
            f"Received: {type(given).__name__}"
        )
    found = leaves(given)
    for leaf in found:
        if leaf.value is not None and not is_tensor(leaf.value):
            raise WrongTypeError(
                f"{what}={{{'/'.join(leaf.keys)!r}: ...}} is no tensor of numbers. "
                f"Received: {type(leaf.value).__name__}"
            )
    # torch's own spelling: "encoder.0".
    paths = [
        "/".join(leaf.keys).replace(".", "/" if family(leaf.value) == "torch" else ".")
        for leaf in found
    ]
    named = zip(unique(paths), found, strict=True)
    return {under(prefix, path): leaf.value for path, leaf in named}


def _info(site: Site, tensor: Any, indices: tuple[int, int]) -> SiteInfo:
    return SiteInfo(
        site=site,
        shape=shape_of(tensor)[1:],  # Of a sample.
        dtype=dtype_name(tensor),
        part="output",
        layer_indices=indices,
    )
