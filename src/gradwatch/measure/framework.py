"""The interface of a tensor framework, and which framework a tensor belongs to."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cache
from importlib import import_module
from typing import Any, Protocol, cast

import numpy as np

from gradwatch import compat
from gradwatch.core import Tensor, Tree

Fetched = Callable[[], dict[str, Any]]
"""Waits for arrays that are being copied to the host, and returns them as NumPy arrays."""


class Framework(Protocol):
    """The functions of `gradwatch.measure.numpy`, `.jax`, `.tensorflow` and `.torch`."""

    NAME: str

    def measure(
        self, tensors: Sequence[Tensor | None], with_cells: Sequence[int] = (), due: Any = True
    ) -> tuple[Tensor, Tensor]:
        """Packed summaries of all tensors, and histogram cells of some; one row a tensor.

        None counts as a tensor without elements. The positions `with_cells` are ascending. The
        flag `due`, of Python or of the framework, says whether to count cells at all.
        """

    def measure_one(self, tensor: Tensor) -> Tensor:
        """The packed summary of a tensor."""

    def constant(self, number: int) -> Tensor:
        """An int32 of the framework."""

    def snapshot(self, value: Tensor) -> Tensor:
        """The value of a variable, unaffected by later updates in place."""

    def copy(self, tensor: Tensor) -> Tensor:
        """A dense copy in at least float32 that nothing updates."""

    def difference(self, after: Tensor, before: Tensor) -> Tensor:
        """after - before, in at least float32."""

    def bias_correction(self, decay: Any, count: Any) -> Any:
        """1 - decay ** count, exact also where that is small; either may be a tensor."""

    def normalized(self, gradient: Tensor, second: Tensor, correction: Any, floor: Any) -> Tensor:
        """gradient * sqrt(correction) / max(sqrt(second), floor), in at least float32."""

    def below(self, second: Tensor, floor: Any) -> Tensor:
        """For each element 1.0 if sqrt(second) is below the floor, else 0.0."""

    def cosine(self, a: Tensor, b: Tensor) -> Tensor:
        """Of the angle between two tensors; 0 if one of them is zero."""

    def dead_units(self, outputs: Tensor, axis: int) -> Tensor | None:
        """For each unit along the axis 1.0 if all its outputs are 0, else 0.0.

        None if there is no other axis, or their number is unknown.
        """

    def outside(self, x: Tensor, low: float, high: float) -> Tensor:
        """For each element 1.0 if it is at most `low` or at least `high`, else 0.0; in float32."""

    def expert_load(self, scores: Tensor, choices: int) -> Tensor:
        """For each place of the last axis, how often it is among the highest, in float32."""

    def residual_ratio(self, branch: Tensor, stream: Tensor) -> Tensor:
        """The norm of a branch divided by that of the stream, of vectors in at least float32.

        Vectors are along the last axis; of tensors with four axes or more, those of the samples.
        Where the branch is 0, so is the ratio.
        """

    def is_traced(self, tensor: Tensor) -> bool:
        """Whether the tensor is symbolic: part of a function that is being compiled."""

    def aside(self) -> AbstractContextManager[None]:
        """Context for all that is computed for a measurement in a function that is compiled."""

    def use_copies(self, outputs: Tree) -> None:
        """Follows the last `aside`, so that measuring does not change how the rest is optimised.

        `outputs` are what the function returns, as far as it is known.
        """

    def fetch_number(self, number: Tensor) -> float | Callable[[], float]:
        """Start copying a tensor of one element to the host; later updates do not change it.

        Returns the number itself if it is there already.
        """

    def fetch(self, measured: Mapping[str, Tensor], names: Sequence[str]) -> Fetched:
        """Start copying to the host."""


_ROOTS = {"tensorflow": "tensorflow", "jax": "jax", "jaxlib": "jax", "torch": "torch"}
_LIBRARIES = {"jax_on_host": "jax"}
"""Whose arrays a module measures, if that is not its name."""


def vector_axes(axes: int) -> tuple[int, ...]:
    """The axes of the vectors that norms are taken of, in a tensor with so many axes."""
    return tuple(range(1, axes)) if axes > 3 else (-1,) if axes else ()


@cache
def framework(name: str) -> Framework:
    """The module of a framework, imported only now; an ImportError if its version is too old."""
    compat.require_supported(_LIBRARIES.get(name, name))
    return cast(Framework, import_module(f"gradwatch.measure.{name}"))


def import_early() -> None:
    """Import what measures in JAX, if JAX is there.

    From JAX 0.12 on, importing `jax.extend` has all jitted functions traced again: better now than
    while the first step is traced that is measured.
    """
    if "jax" in sys.modules:
        with suppress(Exception):  # It is reported where it is needed.
            framework("jax")


def family(tensor: object) -> str | None:
    """The name of the framework of a tensor or variable; None if it is neither."""
    # By the modules of its class and their bases: no framework has to be imported.
    for base in type(tensor).__mro__:
        name = _ROOTS.get(base.__module__.partition(".")[0])
        # Functions and dtypes of a framework have neither.
        if name is not None and hasattr(tensor, "dtype") and hasattr(tensor, "shape"):
            return name
    is_number = isinstance(tensor, np.ndarray | np.generic | int | float)
    return "numpy" if is_number else None
