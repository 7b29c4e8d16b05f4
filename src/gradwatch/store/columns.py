"""Columns as bytes: a small JSON head, then the arrays, each in the narrowest exact form.

Each array is stored as one number if all its elements are the same, else as
uint16, uint32 or float32 where that loses nothing, else as it is. So a column of
zeros takes no space, and what comes back equals what went in, to the last bit.
"""

from __future__ import annotations

import functools
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradwatch.util import Json

_LENGTH = struct.Struct("<I")
_NARROW = ("<u2", "<u4", "<f4")
_FORMS = frozenset({*_NARROW, "<f8", "<i8", "|u1"})
_CONSTANT = "="
LONGEST = 1 << 31
_JSON = json.JSONEncoder(separators=(",", ":"))


class PackedColumn(NamedTuple):
    """An array as it is stored: its entry in the head, and its bytes."""

    head: str
    data: bytes


_NOTHING = PackedColumn("", b"")


def pack(facts: Mapping[str, Json], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Facts, which must be JSON, and one-dimensional arrays of any lengths.

    Arrays are of float64, of int64, or of uint8 (plain bytes).
    """
    return join(facts, [column(name, array) for name, array in arrays.items()])


def join(facts: Mapping[str, Json], columns: Sequence[PackedColumn]) -> bytes:
    """The same, of columns that are encoded already."""
    heads = ",".join([each.head for each in columns])
    text = f"[{_JSON.encode(facts)},[{heads}]]".encode("ascii")
    return b"".join([_LENGTH.pack(len(text)), text, *[each.data for each in columns]])


def column(name: str, array: NDArray[Any]) -> PackedColumn:
    if array.dtype == np.uint8:
        return PackedColumn(
            _head(name, array.dtype.str, array.size, array.dtype.str), array.tobytes()
        )
    wide = np.ascontiguousarray(array, dtype="<i8" if array.dtype.kind in "iu" else "<f8")
    return many([name], wide[None])[0]


def many(names: Sequence[str], arrays: NDArray[Any]) -> list[PackedColumn]:
    """Many arrays of one length, encoded at once: cheaper by far than one by one.

    Each row of `arrays` is one, of float64 or int64. Names that are fewer come again and again.
    """
    count, size = arrays.shape
    dtype = arrays.dtype.str
    found: list[PackedColumn] = [_NOTHING] * count
    left = np.arange(count)

    def take(form: str, fits: NDArray[np.bool_], stored: NDArray[Any]) -> None:
        data, width = stored[fits].tobytes(), stored.shape[1] * stored.itemsize
        for at, i in enumerate(left[fits].tolist()):
            head = _head(names[i % len(names)], form, size, dtype)
            found[i] = PackedColumn(head, data[at * width : (at + 1) * width])

    bits = arrays.view("<i8")
    if size:
        is_constant = (bits == bits[:, :1]).all(axis=1)
        take(_CONSTANT, is_constant, arrays[:, :1])
        left = np.flatnonzero(~is_constant)
    with np.errstate(all="ignore"):
        for form in _NARROW:
            if not left.size:
                break
            rest = arrays[left]
            narrow = rest.astype(form)
            # Bit by bit: -0.0 is not 0, and a NaN keeps its payload.
            fits = (narrow.astype(dtype).view("<i8") == rest.view("<i8")).all(axis=1)
            take(form, fits, narrow)
            left = left[~fits]
    take(dtype, np.ones(left.size, bool), arrays[left])
    return found


def unpack(data: bytes) -> tuple[dict[str, Json], dict[str, NDArray[Any]]]:
    """The inverse of `pack`; raises `ValueError` if the bytes are not of this form.

    An array of equal elements takes no memory, however long it says to be; see `is_constant`.
    """
    try:
        (length,) = _LENGTH.unpack_from(data)
        at = _LENGTH.size + length
        facts, head = json.loads(data[_LENGTH.size : at].decode("ascii"))
        arrays = {}
        for name, form, size, dtype in head:
            if dtype not in _FORMS or form not in _FORMS | {_CONSTANT}:
                raise ValueError(f"unknown form {form!r} of {dtype!r}")
            if type(size) is not int or not 0 <= size <= LONGEST:
                raise ValueError("an impossible length")
            stored = np.dtype(dtype if form == _CONSTANT else form)
            count = min(size, 1) if form == _CONSTANT else size
            values = np.frombuffer(data, stored, count, at).astype(dtype)
            arrays[name] = np.broadcast_to(values, (size,)) if form == _CONSTANT else values
            at += count * stored.itemsize
    except (struct.error, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"These are no columns: {error}") from None
    if at != len(data):
        raise ValueError(f"These are no columns: {len(data) - at} bytes too many.")
    if not isinstance(facts, dict):
        raise ValueError("These are no columns: their facts are no mapping.")
    return facts, arrays


def is_constant(array: NDArray[Any]) -> bool:
    """Whether an unpacked array is one element, several times: it has no size on the disk."""
    return array.size > 1 and array.strides == (0,)


@functools.lru_cache(maxsize=10_000)  # A run writes the same few at every step.
def _head(name: str, form: str, size: int, dtype: str) -> str:
    return _JSON.encode([name, form, size, dtype])
