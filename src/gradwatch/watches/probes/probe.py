"""Functions of a tensor's values, which a watch calls on the host."""

from collections.abc import Sequence
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Kind
from gradwatch.watches.probes.picture import picture
from gradwatch.watches.probes.spectral import SpectralNorm

Array = NDArray[np.float64]


class Probe(Protocol):
    """Makes a number, an array or a picture of a tensor's values, on a background thread.

    Attributes:
        kind: what the result is recorded as; None for a picture, which is an RGB image of
            shape (height, width, 3) and type uint8. An array is summarised as any tensor.
        function_name: the function that makes a watch of it, for messages.
    """

    kind: ClassVar[Kind | None]
    function_name: ClassVar[str]

    def __call__(
        self, path: str, owners: Sequence[str], values: Array
    ) -> float | Array | NDArray[np.uint8]:
        """The result for the variable of that path.

        Args:
            path: of the variable.
            owners: the class names of the layers that hold it, outermost first.
            values: in float64.
        """
        ...


class Pictures:
    """Draws, see `gradwatch.watches.probes.picture`."""

    kind: ClassVar[Kind | None] = None
    function_name: ClassVar[str] = "pictures"

    def __init__(self, max_outputs: int, max_inputs: int) -> None:
        for name, number in (("max_outputs", max_outputs), ("max_inputs", max_inputs)):
            if number < 1:
                raise ValueError(f"{name} must be at least 1. Received: {number}")
        self._limits = {"max_outputs": max_outputs, "max_inputs": max_inputs}

    def __call__(self, path: str, owners: Sequence[str], values: Array) -> NDArray[np.uint8]:
        return picture(values, owners=owners, **self._limits)


class SpectralNorms:
    """The spectral norm of each path, each begun from where its last one arrived."""

    kind: ClassVar[Kind | None] = Kind.SPECTRAL_NORM
    function_name: ClassVar[str] = "spectral_norms"

    def __init__(self) -> None:
        self._norms: dict[str, SpectralNorm] = {}

    def __call__(self, path: str, owners: Sequence[str], values: Array) -> float:
        return self._norms.setdefault(path, SpectralNorm())(values)
