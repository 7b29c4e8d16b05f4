"""The layers of Flax's and Equinox's modules, in a hand-written loop."""

import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import jax

from gradwatch.capture.layer_tensors import unit_axis
from gradwatch.capture.loop.module_walk import class_name, is_linen, submodules
from gradwatch.capture.taps import Passage
from gradwatch.capture.taps.calls import Call, Refusals, gradient_notices, site_paths
from gradwatch.capture.taps.jax_tap import JaxTap
from gradwatch.core import Kind, Site, SiteInfo
from gradwatch.measure import framework
from gradwatch.util import Reporter

_INSIDE = (
    "computed inside a loop, a branch, jax.checkpoint or a function that is compiled by itself"
)
_KINDS = (Kind.OUTPUT, Kind.OUTPUT_GRADIENT, Kind.DEAD_UNIT)


class JaxLayers:
    """See `Layers`; the calls of modules are seen by their classes, or by Linen's interceptors.

    Transformations of Flax and Equinox rebuild modules. So the paths of submodules are looked up
    anew whenever a module of the root's class is called that is no part of one seen before. Under
    `jax.vmap`, the outputs of all samples are noted as one array.
    """

    def __init__(self, model: Any, reporter: Reporter) -> None:
        self._model = model
        self._reporter = reporter
        self._refusals = Refusals(reporter.notice)
        self._tap = JaxTap(through_vmap=True)
        self._calls: dict[str, list[Call]] = {}
        self._modules: dict[str, Any] = {} if is_linen(model) else submodules(model)
        self._paths: dict[int, str] = {}
        self._kept: list[Any] = []
        self._noted: frozenset[str] | None = None
        self._differentiated: frozenset[str] | None = frozenset()
        self._root_name = class_name(model)

    @property
    def are_known(self) -> bool:
        # Compact modules of Linen make their parts when they are called.
        return bool(self._modules)

    def infos(self) -> Sequence[SiteInfo]:
        tops = list(dict.fromkeys(path.partition("/")[0] for path in self._modules))
        return [
            SiteInfo(
                site=Site(kind, path),
                shape=(),
                dtype="",
                part="output",
                layer_indices=(tops.index(path), tops.index(path) - len(tops))
                if path in tops
                else (),
                owners=(module,),
            )
            for path, module in self._modules.items()
            for kind in _KINDS
        ]

    @contextmanager
    def watching(self, sites: Sequence[Site] | None, with_gradients: bool) -> Iterator[None]:
        self._calls, self._paths, self._kept = {}, {}, []
        if sites is None:
            self._noted = None
            self._differentiated = None if with_gradients else frozenset()
        else:
            self._noted = frozenset(site.path for site in sites)
            of_gradients = [s.path for s in sites if s.kind is Kind.OUTPUT_GRADIENT]
            self._differentiated = frozenset(of_gradients)
        with ExitStack() as stack, self._tap.watching():
            if is_linen(self._model):
                stack.enter_context(sys.modules["flax.linen"].intercept_methods(self._intercept))
            else:
                self._learn(self._model)
                for each in {type(m) for m in [self._model, *self._modules.values()]}:
                    stack.callback(_replaced_call(each, self._called))
            yield

    # Which module is called.

    def _called(self, module: Any, call: Callable[[], Any], inputs: Any) -> Any:
        """A module of one of the classes is called."""
        path = None
        try:
            path = self._paths.get(id(module))
            if path is None and self._is_root(module):
                self._learn(module)
                path = self._paths.get(id(module))
        except Exception as error:
            self._failed(error)
        outputs = call()
        return outputs if path is None else self._through(path, outputs, inputs)

    def _is_root(self, module: Any) -> bool:
        """Whether it is the model, perhaps rebuilt."""
        if type(module) is not type(self._model):
            return False
        kinds = {path: type(each) for path, each in submodules(module).items()}
        return kinds == {path: type(each) for path, each in self._modules.items()}

    def _learn(self, root: Any) -> None:
        """The paths of a root's submodules; they are kept, so that their ids stay theirs."""
        found = submodules(root)
        self._kept.append((root, found))
        alone = list(found) == [self._root_name] and found[self._root_name] is root
        if not alone:
            self._paths[id(root)] = ""
        self._paths.update({id(module): path for path, module in found.items()})

    def _intercept(self, call: Any, args: Any, kwargs: Any, context: Any) -> Any:
        """Linen calls a method of a module."""
        path = None
        try:
            if context.method_name == "__call__":
                path = self._path_in_linen(context.module)
        except Exception as error:
            self._failed(error)
        outputs = call(*args, **kwargs)
        return outputs if path is None else self._through(path, outputs, (args, kwargs))

    def _path_in_linen(self, module: Any) -> str | None:
        root = module
        while dataclasses.is_dataclass(getattr(root, "parent", None)):
            root = root.parent
        if type(root) is not type(self._model) or _settings(root) != _settings(self._model):
            return None
        path = "/".join(module.path)
        known = self._modules
        if path and path not in known:
            # Before its parts: those are called within it.
            known[path] = module
            known.pop(self._root_name, None)
        elif not path and not known:
            known[self._root_name] = module
        return path or (self._root_name if self._root_name in known else None)

    # What it returned.

    def _through(self, path: str, outputs: Any, inputs: Any) -> Any:
        """The outputs that go on: the same, or behind an identity that notes their gradients."""
        if not path or (self._noted is not None and path not in self._noted):
            return outputs
        try:
            call = Call(len(self._calls.setdefault(path, [])) + 1)
            found, tree = jax.tree_util.tree_flatten(outputs, is_leaf=_is_state)
            given = {id(x) for x in jax.tree_util.tree_leaves(inputs)}
            tapped = [self._note(path, x, call, id(x) in given) for x in found]
            if not call.passages and call.refusal is None:
                call.refusal = f"not arrays but a {type(outputs).__name__}"
            self._calls[path].append(call)
            changed = any(a is not b for a, b in zip(found, tapped, strict=True))
            return jax.tree_util.tree_unflatten(tree, tapped) if changed else outputs
        except Exception as error:
            self._failed(error)
            return outputs

    def _note(self, path: str, tensor: Any, call: Call, is_input: bool) -> Any:
        if not isinstance(tensor, jax.Array):
            return tensor  # A function, or a part of a state.
        wants = self._differentiated is None or path in self._differentiated
        # An identity behind an input would change the order in which gradients are added.
        passage = Passage(wants_gradient=wants and not is_input, is_input=is_input)
        try:
            tensor = self._tap.through(tensor, passage)
        except TypeError as refused:
            call.refusal = f"not arrays that can be tapped but {refused}"
            return tensor
        if not self._tap.can_leave(passage.output):
            call.refusal = _INSIDE
        call.passages.append(passage)
        return tensor

    def _failed(self, error: Exception) -> None:
        self._reporter.internal_error(error, "noting what a module returns", "that output")

    def taken(self, sites: Sequence[Site]) -> Sequence[tuple[Site, Site, Any]]:
        own = framework("jax")
        passages = {p: self._passages(p) for p in dict.fromkeys(site.path for site in sites)}
        self._refusals.tell()
        taken = [
            (site, Site(site.kind, path), self._tensor(own, site, passage))
            for site in sites
            for path, passage in passages[site.path]
        ]
        gradients = [(of, x) for _, of, x in taken if of.kind is Kind.OUTPUT_GRADIENT]
        by_path = {path: passage for pairs in passages.values() for path, passage in pairs}
        missing = {of.path: by_path[of.path] for of, x in gradients if x is None}
        often = [path for path, passage in by_path.items() if passage.arrivals > 1]
        for notice in gradient_notices(missing, often if gradients else []):
            self._reporter.notice(notice)
        self._calls, self._paths, self._kept = {}, {}, []
        return taken

    def _passages(self, path: str) -> list[tuple[str, Passage]]:
        calls = self._calls.get(path, [])
        whys = [call.refusal for call in calls]
        if not calls:
            whys.append(
                "not seen: the module is not called in the context of outputs_of(), or in a loop "
                "such as jax.lax.scan, which rebuilds it"
            )
        self._refusals.add(path, whys)
        return list(site_paths(path, [call for call in calls if call.refusal is None]))

    def _tensor(self, own: Any, site: Site, passage: Passage) -> Any:
        if site.kind is Kind.OUTPUT_GRADIENT:
            return None if passage.gradient is None else self._tap.outermost(passage.gradient)
        if site.kind is Kind.OUTPUT:
            return passage.output
        axis = unit_axis(own, passage.output)
        if _has_channels_first(self._modules[site.path]) and passage.output.ndim > 2:
            axis = 1
        return own.dead_units(passage.output, axis)


def _settings(module: Any) -> dict[str, Any]:
    """The plain numbers and words that a module of Linen was made with; its parts are rebuilt."""
    names = [f.name for f in dataclasses.fields(module) if f.name not in ("parent", "name")]
    found = {name: getattr(module, name) for name in names}
    return {name: x for name, x in found.items() if isinstance(x, bool | int | float | str)}


def _is_state(value: Any) -> bool:
    """Whether it is the state that Equinox's modules hand on."""
    equinox = sys.modules.get("equinox")
    return equinox is not None and isinstance(value, equinox.nn.State)


def _has_channels_first(module: Any) -> bool:
    """Whether it is one of Equinox's convolutions or poolings."""
    equinox = sys.modules.get("equinox")
    kinds = () if equinox is None else (equinox.nn.Conv, equinox.nn.ConvTranspose, equinox.nn.Pool)
    return isinstance(module, kinds)


def _replaced_call(
    owner: type, called: Callable[[Any, Callable[[], Any], Any], Any]
) -> Callable[[], None]:
    """Have a function told of the calls of a class's objects; returns what ends this."""
    own: Mapping[str, Any] = vars(owner)
    before = own.get("__call__")
    # Not by `getattr`, which finds the metaclass's.
    inherited = next((vars(c)["__call__"] for c in owner.__mro__ if "__call__" in vars(c)), None)
    if inherited is None:
        return lambda: None

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        def call() -> Any:
            return inherited.__get__(self, type(self))(*args, **kwargs)

        # Of a subclass, the call of which has told already.
        return called(self, call, (args, kwargs)) if type(self) is owner else call()

    def undo() -> None:
        if before is None:
            type.__delattr__(owner, "__call__")
        else:
            type.__setattr__(owner, "__call__", before)

    type.__setattr__(owner, "__call__", __call__)
    return undo
