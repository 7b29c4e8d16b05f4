"""What a watch may want of a tensor's values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gradwatch.watches.probes.picture import picture
from gradwatch.watches.probes.spectral import SpectralNorm


class Probe(Protocol):
    """Turns a tensor's values into a number or a picture, on a background thread."""

    asker: str
    """How the user wrote it, for messages."""

    def __call__(
        self, path: str, owners: Sequence[str], values: Any
    ) -> float | NDArray[np.uint8]: ...


class Pictures:
    """Draws, see `gradwatch.watches.probes.picture`."""

    asker = "pictures"

    def __init__(self, max_outputs: int, max_inputs: int) -> None:
        for name, number in (("max_outputs", max_outputs), ("max_inputs", max_inputs)):
            if number < 1:
                raise ValueError(f"{name} must be at least 1. Received: {number}")
        self._limits = {"max_outputs": max_outputs, "max_inputs": max_inputs}

    def __call__(self, path: str, owners: Sequence[str], values: Any) -> NDArray[np.uint8]:
        return picture(values, owners=owners, **self._limits)


class SpectralNorms:
    """The spectral norm of each path, each begun from where its last one arrived."""

    asker = "spectral_norms"

    def __init__(self) -> None:
        self._norms: dict[str, SpectralNorm] = {}

    def __call__(self, path: str, owners: Sequence[str], values: Any) -> float:
        return self._norms.setdefault(path, SpectralNorm())(values)
