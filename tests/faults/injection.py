"""Raising an exception at a chosen call of a chosen function of gradwatch's.

`install` has gradwatch imported with a line more at the beginning of each function, which
asks whether to raise. So each thread is reached, and all else runs at its usual speed.
"""

from __future__ import annotations

import ast
import sys
import threading
from collections import Counter
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import Any

HOOK = "_asked_at_each_call"


class InjectedError(Exception):
    """What is raised where nobody expects it."""


class Injection:
    """While the context lasts, raises at the n-th call of a function, once, on any thread.

    Args:
        target: the function, by its name and line; None to raise nowhere and only count.
        nth: at which of its calls.

    Attributes:
        calls: how often each function was called.
        was_reached: whether it has been raised.
    """

    current: Injection | None = None

    def __init__(self, target: str | None = None, nth: int = 1) -> None:
        self.target = target
        self.nth = nth
        self.calls: Counter[str] = Counter()
        self.was_reached = False
        self._lock = threading.Lock()

    def __enter__(self) -> Injection:
        Injection.current = self
        return self

    def __exit__(self, *_: object) -> None:
        Injection.current = None

    def ask(self, name: str) -> None:
        with self._lock:
            self.calls[name] += 1
            if name != self.target or self.calls[name] != self.nth:
                return
            self.was_reached = True
        raise InjectedError(name)


def _ask(name: str) -> None:
    injection = Injection.current
    if injection is not None:
        injection.ask(name)


class _Instrument(ast.NodeTransformer):
    """Puts the question at the beginning of each function and lambda."""

    def __init__(self, module: str) -> None:
        self._scope = [module.removeprefix("gradwatch.")]

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._inside(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self._inside(node)
        has_text = ast.get_docstring(node, clean=False) is not None
        node.body.insert(1 if has_text else 0, ast.Expr(self._question(node, node.name)))
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self.generic_visit(node)
        both = ast.Tuple([self._question(node, "<lambda>"), node.body], ast.Load())
        node.body = ast.Subscript(both, ast.Constant(1), ast.Load())
        return node

    def _inside(self, node: Any) -> ast.AST:
        self._scope.append(node.name)
        self.generic_visit(node)
        self._scope.pop()
        return node

    def _question(self, node: Any, name: str) -> ast.Call:
        place = f"{'.'.join([*self._scope, name])}:{node.lineno}"
        return ast.Call(ast.Name(HOOK, ast.Load()), [ast.Constant(place)], [])


class _Loader(SourceFileLoader):
    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> Any:  # type: ignore[override]
        tree = _Instrument(self.name).visit(ast.parse(data))
        return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)

    def get_code(self, fullname: str) -> Any:
        # Past the cache of compiled files, which is for those that are as they were written.
        return self.source_to_code(self.get_data(self.path), self.path)

    def exec_module(self, module: Any) -> None:
        setattr(module, HOOK, _ask)
        super().exec_module(module)


class _Finder(MetaPathFinder):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname.partition(".")[0] != "gradwatch":
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def install() -> None:
    """To be called before gradwatch is imported."""
    assert not any(name.partition(".")[0] == "gradwatch" for name in sys.modules)
    sys.meta_path.insert(0, _Finder())
