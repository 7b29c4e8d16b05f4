"""The reference: plain NumPy in float64, which every framework is tested against."""

import numpy as np
from numpy.typing import NDArray

from gradwatch.core.bins import BINS_A_SIDE, CELLS, LOWEST_EXPONENT, NONFINITE, ZERO
from gradwatch.core.framework_types import Tensor

Array = NDArray[np.float64]


def summarize(tensor: Tensor) -> Array:
    x = _as_float64(tensor)
    ok = x[np.isfinite(x)]
    with np.errstate(over="ignore"):  # Only float64 elements can; the sum is then infinite.
        return _row(x, ok)


def _row(x: Array, ok: Array) -> Array:
    return np.array(
        [
            x.size,
            np.isnan(x).sum(),
            (x == np.inf).sum(),
            (x == -np.inf).sum(),
            (x == 0).sum(),
            ok.sum(),
            np.abs(ok).sum(),
            np.square(ok).sum(),
            ok.min(initial=np.inf),
            ok.max(initial=-np.inf),
        ],
        np.float64,
    )


def count_cells(tensor: Tensor) -> Array:
    """The histogram of an array: how many elements fall into each cell."""
    x = _as_float64(tensor)
    with np.errstate(invalid="ignore"):
        mantissa, exponent = np.frexp(np.abs(x))  # |x| = mantissa * 2^exponent, in [0.5, 1)
    octave = exponent - 1 - LOWEST_EXPONENT
    quarter = np.floor((np.where(np.isfinite(mantissa), mantissa, 0.5) - 0.5) * 8).astype(int)
    place = np.clip(octave * 4 + quarter, -1, BINS_A_SIDE)
    cell = np.where(x < 0, ZERO - 2 - place, ZERO + 2 + place)
    cell = np.where(x == 0, ZERO, np.where(np.isfinite(x), cell, NONFINITE))
    return np.bincount(cell, minlength=CELLS).astype(np.float64)


def _as_float64(tensor: Tensor) -> Array:
    x = np.asarray(tensor)
    if np.iscomplexobj(x):
        raise TypeError(f"Complex tensors cannot be summarised. Received: dtype={x.dtype}")
    return x.astype(np.float64).reshape(-1)
