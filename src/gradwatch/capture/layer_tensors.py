"""The outputs of layers in a step, and the gradients with respect to them, by site."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from gradwatch.capture.errors import WrongTypeError, WrongValueError
from gradwatch.capture.shapes import common_framework, shape_of, shapes_agree
from gradwatch.capture.step_tensors import SiteTensor, StepTensors, under
from gradwatch.capture.trees import leaves
from gradwatch.capture.variable_names import dtype_name, is_tensor, unique
from gradwatch.core import Kind, Site, SiteInfo, Tensor
from gradwatch.measure import Framework, family


class HasLayerTensors(Protocol):
    """The result of `Monitor.outputs_of`."""

    def layer_tensors(self, prefix: str) -> StepTensors:
        """The tensors that it has noted; paths begin with the prefix, if it is not empty."""


def layer_tensors(outputs: Any, gradients: Any, prefix: str) -> StepTensors:
    """The tensors given as `outputs=` (by name, or a `HasLayerTensors`) and `output_gradients=`."""
    if hasattr(outputs, "layer_tensors"):
        if gradients is not None:
            raise WrongTypeError(
                "What outputs_of() gives holds the gradients too. Leave output_gradients= out."
            )
        noted: HasLayerTensors = outputs
        return noted.layer_tensors(prefix)
    values = _named("outputs", outputs, prefix)
    slopes = _named("output_gradients", gradients, prefix)
    _check(values, slopes)
    own = common_framework([*values.values(), *slopes.values()])
    infos: list[SiteInfo] = []
    tensors: dict[Site, list[SiteTensor]] = {}
    paths = list(dict.fromkeys([*values, *slopes]))
    for i, path in enumerate(paths):
        found: list[tuple[Kind, Tensor, Callable[[Tensor], Tensor] | None]] = []
        if path in values:
            dead_units = partial(own.dead_units, axis=unit_axis(own, values[path]))
            found += [(Kind.OUTPUT, values[path], None), (Kind.DEAD_UNIT, values[path], dead_units)]
        if path in slopes:
            found.append((Kind.OUTPUT_GRADIENT, slopes[path], None))
        for kind, source, compute in found:
            site = Site(kind, path)
            tensors[site] = [SiteTensor(site, source, compute)]
            infos.append(_info(site, values.get(path, slopes.get(path)), (i, i - len(paths))))
    return StepTensors(infos, tensors)


def unit_axis(own: Framework, output: Tensor) -> int:
    """The axis along which the units, or channels, of an output are, by the framework's custom."""
    return 1 if own.NAME == "torch" and len(shape_of(output)) > 3 else -1


def _check(values: Mapping[str, Tensor], slopes: Mapping[str, Tensor]) -> None:
    for path, output in values.items():
        if output is None:
            raise WrongTypeError(f"outputs= has no tensor for {path!r}. Received: None")
        slope = slopes.get(path)
        if slope is not None and not shapes_agree(shape_of(output), shape_of(slope)):
            raise WrongValueError(
                f"The gradient with respect to the output {path!r} has the shape "
                f"{shape_of(slope)}, but the output itself has {shape_of(output)}."
            )


def _named(what: str, given: Any, prefix: str) -> dict[str, Tensor]:
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
    # The names of torch: "encoder.0".
    paths = [
        "/".join(leaf.keys).replace(".", "/" if family(leaf.value) == "torch" else ".")
        for leaf in found
    ]
    named = zip(unique(paths), found, strict=True)
    return {under(prefix, path): leaf.value for path, leaf in named}


def _info(site: Site, tensor: Tensor, indices: tuple[int, int]) -> SiteInfo:
    return SiteInfo(
        site=site,
        shape=shape_of(tensor)[1:],  # Of a sample.
        dtype=dtype_name(tensor),
        part="output",
        layer_indices=indices,
    )
