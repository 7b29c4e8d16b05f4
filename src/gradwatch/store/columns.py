"""Columns as bytes: a small JSON head, then the arrays, each in the narrowest exact form.

Each array is stored as one number if all its elements are the same, else as
uint16, uint32 or float32 where that loses nothing, else as it is. So a column of
zeros takes no space, and what comes back equals what went in, to the last bit.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LENGTH = struct.Struct("<I")
_NARROW = ("<u2", "<u4", "<f4")
_FORMS = frozenset({*_NARROW, "<f8", "<i8", "|u1"})
_CONSTANT = "="


def pack(facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Facts, which must be JSON, and one-dimensional arrays of any lengths.

    Arrays are of float64, of int64, or of uint8 (plain bytes).

    >>> import numpy as np
    >>> from gradwatch.store import columns
    >>> data = columns.pack({"step": 3}, {"a": np.array([1.5, 2.5]), "b": np.zeros(1000)})
    >>> len(data)
    75
    >>> facts, arrays = columns.unpack(data)
    >>> facts, arrays["a"], arrays["b"].sum()
    ({'step': 3}, array([1.5, 2.5]), np.float64(0.0))
    """
    head: list[list[Any]] = []
    parts: list[bytes] = []
    for name, array in arrays.items():
        form, data = _narrowest(_wide(array))
        head.append([name, form, array.size, _wide(array).dtype.str])
        parts.append(data)
    text = json.dumps([facts, head], separators=(",", ":")).encode("ascii")
    return b"".join([_LENGTH.pack(len(text)), text, *parts])


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The inverse of `pack`.

    Raises:
        ValueError: the bytes are not of this form.
    """
    try:
        (length,) = _LENGTH.unpack_from(data)
        at = _LENGTH.size + length
        facts, head = json.loads(data[_LENGTH.size : at].decode("ascii"))
        arrays = {}
        for name, form, size, dtype in head:
            if dtype not in _FORMS or form not in _FORMS | {_CONSTANT}:
                raise ValueError(f"unknown form {form!r} of {dtype!r}")
            stored = np.dtype(dtype if form == _CONSTANT else form)
            count = min(size, 1) if form == _CONSTANT else size
            values = np.frombuffer(data, stored, count, at).astype(dtype)
            arrays[name] = np.broadcast_to(values, (size,)) if form == _CONSTANT else values
            at += count * stored.itemsize
    except (struct.error, TypeError, KeyError) as error:
        raise ValueError(f"These are no columns: {error}") from None
    if at != len(data):
        raise ValueError(f"These are no columns: {len(data) - at} bytes too many.")
    return facts, arrays


def _wide(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype == np.uint8:
        return array
    is_whole = np.issubdtype(array.dtype, np.integer)
    return np.ascontiguousarray(array, dtype="<i8" if is_whole else "<f8")


def _narrowest(array: NDArray[Any]) -> tuple[str, bytes]:
    if array.dtype == np.uint8:
        return array.dtype.str, array.tobytes()
    bits = array.view("<i8")
    if array.size and (bits == bits[0]).all():
        return _CONSTANT, array[:1].tobytes()
    for form in _NARROW:
        with np.errstate(all="ignore"):
            narrow = array.astype(form)
            # Bit by bit: -0.0 is not 0, and a NaN keeps its payload.
            if (narrow.astype(array.dtype).view("<i8") == bits).all():
                return form, narrow.tobytes()
    return array.dtype.str, array.tobytes()
