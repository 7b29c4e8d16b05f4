"""The layers of a run by what is the same in another run of the same network.

Keras numbers the layers that have no name of their own through the whole process, so the second
model of a process has other paths than the first: `sequential_1/dense_3` and not
`sequential/dense_1`. Containers of torch number their modules by position.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gradwatch.core import SiteInfo

Shape = tuple[int, ...]
_COUNTER = re.compile(r"_\d+$")
_POSITION = re.compile(r"\d+$", re.ASCII)


@dataclass(frozen=True)
class NamedLayer:
    """A layer, and what it is known by in other runs.

    Attributes:
        path: in its own run.
        name: the path without the model's name and without counters.
        is_counted: whether a counter, or the absence of one, is all that tells it from others.
        shapes: of its variables, each in ascending order: Keras and torch transpose each other's.
            Vectors are left out if there is anything else, since biases are optional.
        class_name: such as `Dense`; empty if it is not known.
    """

    path: str
    name: str
    is_counted: bool
    shapes: tuple[Shape, ...]
    class_name: str


def named_layers(infos: Iterable[SiteInfo], classes: Mapping[str, str]) -> list[NamedLayer]:
    """The layers of sites; `classes` are the known classes by path, in network order."""
    shapes: dict[str, dict[str, Shape]] = {}
    for info in infos:
        own = shapes.setdefault(info.site.layer, {})
        if info.kind.is_of_variable and not info.site.is_slice:
            own[info.path] = tuple(sorted(size for size in info.shape if isinstance(size, int)))
    # Sites of layers without variables come last.
    order = classes if all(path in classes for path in shapes) else shapes
    root = _root_of(shapes)
    layers = []
    for path in (path for path in order if path in shapes):
        own = shapes[path]
        name, is_counted = _without_counters(path, root, classes)
        class_name = classes.get(path, "")
        layers.append(NamedLayer(path, name, is_counted, _signature(own.values()), class_name))
    return layers


def counted_alike(*runs: Sequence[NamedLayer]) -> list[list[NamedLayer]]:
    """The layers, where one without a counter counts as number 0 if any run has others."""
    counted = {layer.name for run in runs for layer in run if layer.is_counted}
    return [[replace(each, is_counted=each.name in counted) for each in run] for run in runs]


def _root_of(paths: Iterable[str]) -> str:
    """The model's name with a slash, if all paths begin with it; or else nothing."""
    roots = {root + slash for root, slash, _ in (path.partition("/") for path in paths)}
    root = roots.pop() if len(roots) == 1 else ""
    return root if root.endswith("/") else ""


def _without_counters(path: str, root: str, classes: Mapping[str, str]) -> tuple[str, bool]:
    parts, is_counted, place = [], False, root.rstrip("/")
    for part in path.removeprefix(root).split("/"):
        place = f"{place}/{part}" if place else part
        base = "#" if _POSITION.match(part) else _COUNTER.sub("", part)
        default = _snake_case(classes.get(place, ""))
        if default and base not in ("#", default):
            base = part  # a name that the user has given
        is_counted |= base != part or base == default
        parts.append(base)
    return "/".join(parts), is_counted


def _snake_case(class_name: str) -> str:
    """As Keras names the layers of a class."""
    name = re.sub(r"\W+", "", class_name)
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()


def _signature(shapes: Iterable[Shape]) -> tuple[Shape, ...]:
    known = [shape for shape in shapes if shape]
    return tuple(sorted([shape for shape in known if len(shape) > 1] or known))
