"""The spectral norm: the most that a weight can stretch a vector."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


BLOCK = 4
"""How many directions are followed at once: singular values close to the largest
hold up the iteration only if there are more of them than this."""


class SpectralNorm:
    """The largest singular value of a tensor's matrix, by power iteration.

    The matrix has the tensor's last axis for its columns, as Keras reads a kernel: for a
    convolution it is (space x inputs, outputs), whose norm bounds the operator's only up to a
    factor. Each call starts from where the last one arrived, so that over a run it takes a few
    products. It ends when the value changes relatively by less than `tolerance`, or after `most`
    iterations.
    """

    def __init__(self, tolerance: float = 1e-9, most: int = 300) -> None:
        self._tolerance = tolerance
        self._most = most
        self._directions: Array | None = None

    def __call__(self, values: Any) -> float:
        """The norm of this value of the tensor; NaN if it has elements that are not finite."""
        x = np.asarray(values, np.float64)
        matrix = x.reshape(-1, x.shape[-1]) if x.ndim else x.reshape(1, 1)
        size = np.abs(matrix).max(initial=0.0)
        if not np.isfinite(size):
            return float("nan")
        if size == 0.0:
            return 0.0
        matrix = matrix / size  # So that squares neither overflow nor vanish.
        directions = self._start(matrix.shape[1])
        norm = 0.0
        for _ in range(self._most):
            images = matrix @ directions
            before, norm = norm, float(np.linalg.norm(images, 2))
            directions = np.linalg.qr(matrix.T @ images)[0]
            if abs(norm - before) <= self._tolerance * norm:
                break
        self._directions = directions
        return norm * float(size)

    def _start(self, n: int) -> Array:
        noise = np.random.default_rng(0).normal(size=(n, min(n, BLOCK))) / np.sqrt(n)
        if self._directions is not None and self._directions.shape == noise.shape:
            # A little noise stays: the last directions may by now be exact, but lesser ones.
            noise = self._directions + 1e-3 * noise
        return np.linalg.qr(noise)[0]
