"""The names of variables, whatever they come in: a model, a module, a list, a tree."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradwatch.capture.errors import WrongTypeError, WrongValueError
from gradwatch.capture.trees import Leaf, leaves
from gradwatch.measure import family


@dataclass(frozen=True)
class NamedVariable:
    """A variable under the path that it has in the run."""

    path: str
    value: Any
    trainable: bool = True
    owners: tuple[object, ...] = ()
    layer_indices: tuple[int, ...] = ()
    is_keras: bool = False
    """Whether `value` was read from a variable of Keras's."""


@dataclass(frozen=True)
class Variables:
    """All variables of a call, in network order, under unique paths.

    `order` has, for gradients given as a flat list, the position in `named` of the variable that
    each belongs to; `position` has it for gradients given as a tree, by the keys that lead to it.
    `complex_paths` are those of a tree that are no variables here.
    """

    named: list[NamedVariable]
    order: list[int]
    position: Mapping[tuple[str, ...], int]
    complex_paths: Sequence[str] = ()


def variables_of(given: Any, names: Any = None) -> Variables:
    """The variables in what the user gave, with names.

    `given` is a Keras model or layer, a `tf.Module`, a `torch.nn.Module`, a variable, or any list,
    dict or tree of variables or arrays; also a list of (name, tensor) pairs, as of torch's
    `named_parameters()`. `names` are other names for the leaves: strings, or variables whose names
    are used.
    """
    if isinstance(given, Iterator):
        given = list(given)
    found = _of_module(given)
    if found is None:
        found = _of_tree(given, names)
    elif names is not None:
        raise WrongValueError(
            "names= is for arrays without names; a model has its own. Leave it out."
        )
    if not found.named:
        raise WrongValueError(f"There is no variable in what was given. Received: {_shown(given)}")
    return found


def own_name(variable: Any) -> str | None:
    keras = sys.modules.get("keras")
    if keras is not None and isinstance(variable, keras.Variable):
        return str(variable.path)
    tf = sys.modules.get("tensorflow")
    if tf is not None and isinstance(variable, tf.Variable):
        return str(variable.name).partition(":")[0]
    return None


def value_of(variable: Any) -> Any:
    """The tensor or variable of the framework's own."""
    keras = sys.modules.get("keras")
    if keras is not None and isinstance(variable, keras.Variable):
        return variable.value
    return variable


def unique(paths: Sequence[str]) -> list[str]:
    """The paths with `#2`, `#3`, ... where they repeat.

    At the layer's place, so that the variables of a second layer of one name stay
    together: `dense/kernel`, `dense/bias`, `dense#2/kernel`, `dense#2/bias`.
    """
    taken: set[str] = set()
    result = []
    for path in paths:
        # Brackets at the end stand for a slice of a variable, which this is not.
        path = path.replace("[", "(").replace("]", ")").strip("/") or "variable"
        layer, slash, name = path.rpartition("/")
        n, candidate = 1, path
        while candidate in taken:
            n += 1
            candidate = f"{layer}#{n}/{name}" if slash else f"{name}#{n}"
        taken.add(candidate)
        result.append(candidate)
    return result


def _of_module(given: Any) -> Variables | None:
    keras, torch = sys.modules.get("keras"), sys.modules.get("torch")
    tf = sys.modules.get("tensorflow")
    if keras is not None and isinstance(given, keras.Model):
        return _of_keras_model(given)
    if keras is not None and isinstance(given, keras.Layer):
        return _paired([(v.path, v, ()) for v in given.weights], given.trainable_variables)
    if torch is not None and isinstance(given, torch.nn.Module):
        return _of_torch(given)
    if tf is not None and isinstance(given, tf.Module):
        return _of_tf_module(given)
    return None


def _of_keras_model(model: Any) -> Variables:
    from gradwatch.capture.keras.variables import model_variables

    each = model_variables(model)
    found = _paired([(v.path, v.variable, v.owners) for v in each], model.trainable_variables)
    indices = [v.layer_indices for v in each]
    named = [replace(n, layer_indices=i) for n, i in zip(found.named, indices, strict=True)]
    return replace(found, named=named)


def _of_torch(module: Any) -> Variables:
    module = unwrapped(module)
    modules = dict(module.named_modules())
    found = []
    for name, parameter in module.named_parameters():
        owner = name.rpartition(".")[0]
        chain = [owner[:i] for i, c in enumerate(owner) if c == "."] + ([owner] if owner else [])
        owners = (module, *(modules[n] for n in chain if n in modules))
        found.append((name.replace(".", "/"), parameter, owners))
    return _paired(found, [parameter for _, parameter, _ in found])


def unwrapped(module: Any) -> Any:
    """The user's own torch module, out of `torch.compile` and data parallelism."""
    parallel = sys.modules["torch"].nn.parallel
    while True:
        if hasattr(module, "_orig_mod"):
            module = module._orig_mod
        elif isinstance(module, parallel.DistributedDataParallel | parallel.DataParallel):
            module = module.module
        else:
            return module


def _of_tf_module(module: Any) -> Variables:
    if hasattr(module, "trainable_weights"):  # A legacy Keras layer: its names are better.
        found = [(own_name(v) or "", v, ()) for v in module.weights]
        return _paired(found, module.trainable_weights)
    tf = sys.modules["tensorflow"]
    # The attributes' paths; a shared variable under the first.
    paths: dict[int, str] = {}
    flat = module._flatten(predicate=lambda x: isinstance(x, tf.Variable), with_path=True)
    for keys, variable in flat:
        paths.setdefault(id(variable), "/".join(map(str, keys)))
    found = [(paths.get(id(v), own_name(v) or ""), v, ()) for v in module.variables]
    return _paired(found, module.trainable_variables)


def _paired(
    found: Sequence[tuple[str, Any, tuple[object, ...]]], trainable: Sequence[Any]
) -> Variables:
    """From (path, variable, owners), and the variables that gradients are given for."""
    position = {id(variable): i for i, (_, variable, _) in enumerate(found)}
    learned = {id(v) for v in trainable if _is_trainable(v)}
    paths = unique([path for path, _, _ in found])
    named = [
        NamedVariable(path, value_of(v), id(v) in learned, owners, is_keras=value_of(v) is not v)
        for path, (_, v, owners) in zip(paths, found, strict=True)
    ]
    keys = {tuple(path.split("/")): i for i, path in enumerate(paths)}
    named = _with_indices(named)
    # torch's own spelling too: {"net.0.weight": ...}.
    keys |= {(path.replace("/", "."),): i for i, path in enumerate(paths)}
    return Variables(named, [position[id(v)] for v in trainable], keys)


def _with_indices(named: list[NamedVariable]) -> list[NamedVariable]:
    """Layers numbered in the order in which their variables come, from both ends."""
    layers = list(dict.fromkeys(n.path.rpartition("/")[0] or n.path for n in named))
    place = {layer: (i, i - len(layers)) for i, layer in enumerate(layers)}
    return [replace(n, layer_indices=place[n.path.rpartition("/")[0] or n.path]) for n in named]


def _of_tree(given: Any, names: Any) -> Variables:
    pairs = _name_and_tensor(given)
    complex_paths: list[str] = []
    if pairs is None:
        everything = leaves(given)
        found = [leaf for leaf in everything if is_tensor(leaf.value)]
        complex_paths = [_path(leaf) for leaf in everything if is_complex(leaf.value)]
        if not found and not isinstance(given, list | tuple | Mapping):
            raise WrongTypeError(
                "Variables are given as a model, a module, or a list, dict or tree of variables. "
                f"Received: {_shown(given)}"
            )
    else:
        found = [Leaf((name,), True, tensor) for name, tensor in pairs]
    for leaf in found:
        if isinstance(leaf.value, str | bytes):
            raise WrongTypeError(f"A variable is expected where there is text: {leaf.value!r}")
    paths = _given_names(names, found)
    named = [
        NamedVariable(path, value_of(v), _is_trainable(v), is_keras=value_of(v) is not v)
        for path, v in zip(unique(paths), [leaf.value for leaf in found], strict=True)
    ]
    named = _with_indices(named)
    position = {f.keys: i for i, f in enumerate(found)}
    return Variables(named, list(range(len(named))), position, complex_paths)


def _is_trainable(variable: Any) -> bool:
    name = "requires_grad" if family(variable) == "torch" else "trainable"
    return bool(getattr(variable, name, True))


def _path(leaf: Leaf) -> str:
    name = None if leaf.is_named else own_name(leaf.value)
    if name is not None:
        return name
    keys = leaf.keys
    if family(leaf.value) == "torch":  # A state dict's keys: "encoder.0.weight".
        keys = tuple(key.replace(".", "/") for key in keys)
    return "/".join(keys) or "variable"


def _given_names(names: Any, found: Sequence[Leaf]) -> list[str]:
    if names is None:
        return [_path(leaf) for leaf in found]
    listed = list(names)
    if len(listed) != len(found):
        raise WrongValueError(
            f"names= has {len(listed)} entries for {len(found)} variables; it needs one for each, "
            "in the same order."
        )
    paths = [each if isinstance(each, str) else own_name(each) for each in listed]
    for path, each in zip(paths, listed, strict=True):
        if path is None:
            raise WrongTypeError(
                f"names= takes strings or named variables. Received: {_shown(each)}"
            )
    return [path for path in paths if path is not None]


def _name_and_tensor(given: Any) -> list[tuple[str, Any]] | None:
    is_pairs = (
        isinstance(given, list | tuple)
        and given
        and all(isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str) for p in given)
    )
    return [(name, tensor) for name, tensor in given] if is_pairs else None


def is_tensor(value: Any) -> bool:
    """Whether it is a tensor or variable of a type that can be measured."""
    # Bare numbers in a tree are settings, not parameters.
    if family(value_of(value)) is None or isinstance(value, int | float):
        return False
    # Neither text, nor random keys, nor complex numbers.
    return dtype_name(value).startswith(("float", "bfloat", "int", "uint", "bool"))


def is_complex(value: Any) -> bool:
    return family(value_of(value)) is not None and dtype_name(value).startswith("complex")


def dtype_name(value: Any) -> str:
    dtype = getattr(value_of(value), "dtype", type(value).__name__)
    return str(getattr(dtype, "name", dtype)).removeprefix("torch.")


def _shown(given: Any) -> str:
    """What was received, short enough for a message."""
    text = repr(given) if isinstance(given, str | int | float | bool | None) else ""
    return f"{text} of type {type(given).__name__}".strip()
