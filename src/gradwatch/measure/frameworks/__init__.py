"""What capture needs of a tensor framework, whatever the loop: a module for each.

A module of this package is imported only when tensors of its framework are there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from importlib import import_module
from typing import Any, Protocol, cast

import numpy as np


class Framework(Protocol):
    """The functions that each module of this package has."""

    def summarize(self, tensors: Sequence[Any]) -> Any:
        """See `gradwatch.measure`."""

    def count_cells(self, tensors: Sequence[Any], due: Any = True) -> Any:
        """See `gradwatch.measure`; `due` is a flag of the framework's, or Python's own."""

    def summarize_and_count(
        self, tensors: Sequence[Any], with_cells: Sequence[int], due: Any = True
    ) -> tuple[Any, Any]:
        """Both of these: summaries of all, and cells of those at some positions, ascending."""

    def constant(self, number: int) -> Any:
        """A whole number as an int32 of the framework's."""

    def snapshot(self, value: Any) -> Any:
        """A variable's value, safe from being updated in place."""

    def copy(self, tensor: Any) -> Any:
        """A dense copy that nothing updates, in at least float32."""

    def difference(self, after: Any, before: Any) -> Any:
        """after - before, in at least float32."""

    def dead_units(self, outputs: Any, axis: int) -> Any:
        """For each unit along the axis 1.0 if all its outputs are 0, else 0.0.

        None if there is no other axis, or the number of them is not known.
        """

    def is_traced(self, tensor: Any) -> bool:
        """Whether it stands for a value inside a function that is being compiled."""

    def apart(self) -> AbstractContextManager[None]:
        """Around all that is measured of a function that is being compiled.

        What is computed inside does not change how the rest is optimised, where that can be.
        """

    def fetch(self, measured: Mapping[str, Any], names: Sequence[str]) -> Fetched:
        """Start copying to the host; a function that waits for the arrays."""


Fetched = Callable[[], dict[str, Any]]

NAMES = ("tensorflow", "jax", "torch", "numpy")
_ROOTS = {"tensorflow": "tensorflow", "jax": "jax", "jaxlib": "jax", "torch": "torch"}


@cache
def framework(name: str) -> Framework:
    """The module for the framework of that name."""
    module = f"{name}_{'tensors' if name in ('tensorflow', 'torch') else 'arrays'}"
    return cast(Framework, import_module(f"gradwatch.measure.frameworks.{module}"))


def family(tensor: Any) -> str | None:
    """The name of the framework that a tensor or variable belongs to; None if to none.

    >>> from gradwatch.measure.frameworks import family
    >>> family(1.5), family("text")
    ('numpy', None)
    """
    # By the modules of the class and its bases, so that nothing need be imported.
    for base in type(tensor).__mro__:
        name = _ROOTS.get(base.__module__.partition(".")[0])
        # A function or a dtype of a framework's is no tensor of it.
        if name is not None and hasattr(tensor, "dtype") and hasattr(tensor, "shape"):
            return name
    is_number = isinstance(tensor, np.ndarray | np.generic | int | float)
    return "numpy" if is_number else None
