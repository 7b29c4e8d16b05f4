"""Numbers in strict JSON."""

import base64
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Answer = dict[str, Any]
"""A response as `viewer/src/api/types.ts` describes it."""


def doubles(values: ArrayLike) -> str:
    """Numbers as little-endian doubles in base64: exact, also NaN and infinity."""
    return base64.b64encode(np.ascontiguousarray(values, "<f8").tobytes()).decode("ascii")


def number(value: float) -> float | int | str:
    """One number; NaN and infinity, which JSON lacks, as strings."""
    if isinstance(value, int) or math.isfinite(value):
        return value
    return str(float(value))


def whole(values: ArrayLike) -> list[int]:
    """Whole numbers such as steps."""
    found: list[int] = np.asarray(values).astype(np.int64).tolist()
    return found


def sparse(counts: NDArray[np.float64]) -> list[list[int]]:
    """Row, column and count of each count that is not 0."""
    rows, columns = np.nonzero(counts)
    places = zip(whole(rows), whole(columns), whole(counts[rows, columns]), strict=True)
    return [list(place) for place in places]
