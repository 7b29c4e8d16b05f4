"""Measures what the submodules of a compiled torch module return, inside of its graph."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch._dynamo.comptime import comptime
from torch.utils import _pytree as pytree

from gradwatch.capture.taps import Passage
from gradwatch.capture.taps.calls import MOST_CALLS, Call
from gradwatch.capture.user_taps import OWNED, OWNER, STATE, TapCollector
from gradwatch.capture.user_taps.torch_taps import through
from gradwatch.capture.variable_names import unwrapped

_UNSEEN = (
    "not in the graph of torch.compile: the training step does not call the module, or was "
    "compiled before watch(); call watch() before the first call, or put gradwatch.tap(x, name) "
    "into the code of the module"
)
_UNREACHED = (
    "in a graph of torch.compile that does not compute them: the loss does not depend on them, or "
    "the graph is broken there"
)
_NOT_TAPPED = (
    "in a graph of torch.compile, and no new tensors that need a gradient; watch the module that "
    "they come from"
)
_TWICE = (
    "recorded by another monitor: the graph of torch.compile measures them once; watch a module "
    "with one monitor"
)

_numbers = itertools.count(1)
# A graph that was compiled while a module was watched serves it when it is watched again.
_keys: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


class GraphTaps:
    """Forward hooks that torch.compile traces, with the taps of `gradwatch.tap` in them.

    In steps that are not due, the graph that runs has none of them. `due` says whether the next
    step is.
    """

    def __init__(self, module: Any, due: Callable[[], bool]) -> None:
        root = unwrapped(module)
        self._key = _keys.setdefault(root, f"{OWNED}{next(_numbers)}")
        self.is_due = due
        self.is_on = False
        self.collector = TapCollector(keeps_tensors=True)
        self._paths: frozenset[str] = frozenset()
        self._traced: set[str] = set()
        self._whys: dict[str, str] = {}

    def listen(self, modules: Mapping[str, Any]) -> list[Callable[[], None]]:
        """Measure these modules, by their paths, until the returned functions are called."""
        self._paths = frozenset(modules)
        leave = STATE.own(self._key, self)
        if leave is None:
            self._whys = dict.fromkeys(modules, _TWICE)
            return []
        # torch.compile itself gives this, for any torch.autograd.Function.
        warnings.filterwarnings("ignore", ".*should not be instantiated", DeprecationWarning)
        handles = [
            module.register_forward_hook(_GraphHook(self._key, path), with_kwargs=True)
            for path, module in modules.items()
        ]
        return [leave, *(handle.remove for handle in handles)]

    def has(self, path: str) -> bool:
        return path in self._paths

    def why_not(self, path: str) -> str:
        """Why there is no call of a module."""
        return self._whys.get(path, _UNREACHED if path in self._traced else _UNSEEN)

    def take(self) -> dict[str, list[Call]]:
        """The calls of each module since the last time."""
        taken, self.collector = self.collector, TapCollector(keeps_tensors=True)
        self._traced |= {_parsed(name)[0] for name in taken.compiled}
        for name, why in taken.whys():
            self._whys.setdefault(_parsed(name)[0], why or _NOT_TAPPED)
        found: dict[str, dict[int, Call]] = {}
        for noted in taken.in_order():
            path, index, count = _parsed(noted.name)
            calls = found.setdefault(path, {})
            call = calls.setdefault(noted.call, Call(noted.call))
            if call.number > MOST_CALLS:
                call.refusal = f"call {MOST_CALLS + 1} and later ones of one step"
                continue
            call.passages = call.passages or [Passage() for _ in range(count)]
            call.passages[index] = noted
        return {path: list(calls.values()) for path, calls in found.items()}


def _parsed(name: str) -> tuple[str, int, int]:
    """The path of a module in the name of a tap, and which tensor it is of how many."""
    path, index, count = name.partition(OWNER)[2].rsplit(OWNER, 2)
    return path, int(index), int(count)


class _GraphHook:
    """A forward hook, which copies of the module and modules loaded from a file do not have."""

    def __init__(self, key: str, path: str) -> None:
        self._name = f"{key}{OWNER}{path}"

    def __call__(self, module: Any, args: Any, kwargs: Any, outputs: Any) -> Any:
        if not (torch.compiler.is_compiling() and STATE.are_owners_on and torch.is_grad_enabled()):
            return None
        # A module of the same class may share compiled code: not what is measured here.
        id(module)
        _begin_storages()
        for given in pytree.tree_leaves((args, kwargs)):
            if isinstance(given, torch.Tensor):
                _add_storage(given)
        leaves, form = pytree.tree_flatten(outputs, is_leaf=_is_whole)
        tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
        index, following = 0, []
        for x in leaves:
            if isinstance(x, torch.Tensor):
                x = _tapped(x, f"{self._name}{OWNER}{index}{OWNER}{len(tensors)}")
                index += 1
            following.append(x)
        return pytree.tree_unflatten(following, form)

    def __reduce__(self) -> Any:
        # A builtin that does nothing: the file can be read without gradwatch.
        return getattr, (nullcontext(), "__exit__")


def _is_whole(x: Any) -> bool:
    """Whether nothing is looked for in an object: a cache of attention must stay the same."""
    # torch before 2.6 does not compile a union of types.
    return not isinstance(x, (tuple, list, dict))


def _tapped(x: Any, name: str) -> Any:
    """The tensor that goes on: a copy, but only of what nothing else shares memory with."""
    _look_up_storage(x)
    if x.requires_grad and not x.is_leaf and _is_new():
        return through(x, name)
    _refuse(name)
    return x


# The memory of tensors is known only while a function is compiled.
_storages: set[int] = set()
_found: list[bool] = []


def _begin_storages() -> None:
    _storages.clear()


def _add_storage(x: Any) -> None:
    comptime(_note_storage)


def _look_up_storage(x: Any) -> None:
    comptime(_compare_storage)


def _note_storage(context: Any) -> None:
    _storages.add(_storage_in(context))


def _compare_storage(context: Any) -> None:
    _found[:] = [_storage_in(context) in {0, *_storages}]


def _storage_in(context: Any) -> int:
    try:
        return int(context.get_local("x").as_fake().untyped_storage()._cdata)
    except Exception:
        return 0  # Of another class than torch.Tensor, or sparse.


def _is_new() -> bool:
    return _found == [False]


def _refuse(name: str) -> None:
    collector = STATE.collector_of(name)
    if collector is not None:
        collector.refuse(name, _NOT_TAPPED)


# Run when a function is compiled, and left out of the graph, as in torch_taps.
for _function in (_begin_storages, _is_new, _refuse):
    vars(_function)["_dynamo_marked_constant"] = True
