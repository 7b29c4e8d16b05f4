"""Numbers in strict JSON."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

Answer = dict[str, Any]
"""What `viewer/src/api/types.ts` says of a request's answer."""


def doubles(values: ArrayLike) -> str:
    """Numbers as doubles in base64, little-endian: exact, whatever they are.

    >>> from gradwatch.view.data.plain import doubles
    >>> doubles([1.0, float("nan")])
    'AAAAAAAA8D8AAAAAAAD4fw=='
    """
    return base64.b64encode(np.ascontiguousarray(values, "<f8").tobytes()).decode("ascii")


def number(value: float) -> float | int | str:
    """One number; those that JSON lacks are spelled.

    >>> from gradwatch.view.data.plain import number
    >>> [number(v) for v in (0.5, float("nan"), float("-inf"))]
    [0.5, 'nan', '-inf']
    """
    if isinstance(value, int) or math.isfinite(value):
        return value
    return str(float(value))


def whole(values: ArrayLike) -> list[int]:
    """Whole numbers such as steps."""
    found: list[int] = np.asarray(values).astype(np.int64).tolist()
    return found
