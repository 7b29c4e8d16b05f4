"""The numbers in TensorFlow's `TensorProto` messages."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwatch.integrations.tensorboard_import import protobuf

# By the number of the type: how it is laid out in bytes, and the field that
# has its values where they are not given as bytes.
_BFLOAT16, _HALF = 14, 19
_TYPES: dict[int, tuple[str, int]] = {
    1: ("<f4", 5),
    2: ("<f8", 6),
    3: ("<i4", 7),
    4: ("<u1", 7),
    5: ("<i2", 7),
    6: ("<i1", 7),
    9: ("<i8", 10),
    10: ("?", 11),
    _BFLOAT16: ("<u2", 13),
    17: ("<u2", 7),
    _HALF: ("<u2", 13),
    22: ("<u4", 16),
    23: ("<u8", 17),
}


def numbers(message: bytes) -> NDArray[np.float64] | None:
    """The tensor as float64, which all but 64-bit whole numbers fit exactly.

    None if it is not of numbers: texts and images are tensors too.

    Raises:
        protobuf.MessageError: it is no such message, or the values do not fit the shape.
    """
    dtype, content = 0, b""
    shape: tuple[int, ...] = ()
    by_field: dict[int, list[int | bytes]] = {}
    for number, value in protobuf.fields(message):
        if number == 1:
            dtype = protobuf.whole(value)
        elif number == 2:
            shape = _shape(protobuf.octets(value))
        elif number == 4:
            content = protobuf.octets(value)
        else:
            by_field.setdefault(number, []).append(value)
    if dtype not in _TYPES:
        return None
    layout, field = _TYPES[dtype]
    if content:
        if len(content) % np.dtype(layout).itemsize:
            raise protobuf.MessageError("a tensor with half a number")
        values = np.frombuffer(content, layout)
    else:
        values = _repeated(by_field.get(field, []), layout)
    if dtype == _HALF:
        values = values.view("<f2")
    elif dtype == _BFLOAT16:
        values = (values.astype("<u4") << 16).view("<f4")
    return _fill(values.astype(np.float64), shape)


def _fill(values: NDArray[np.float64], shape: tuple[int, ...]) -> NDArray[np.float64]:
    size = prod(shape)
    if values.size < size and values.size <= 1:
        # One value stands for all, and none for zeros, where a tensor is constant.
        values = np.full(size, values[0] if values.size else 0.0)
    if values.size != size:
        raise protobuf.MessageError(f"{values.size} values for a tensor of shape {shape}")
    return values.reshape(shape)


def _shape(message: bytes) -> tuple[int, ...]:
    shape = []
    for number, value in protobuf.fields(message):
        if number == 2:
            sizes = [v for n, v in protobuf.fields(protobuf.octets(value)) if n == 1]
            shape.append(protobuf.whole(sizes[-1]) if sizes else 0)
    if any(size < 0 or size > 1 << 32 for size in shape) or prod(shape) > 1 << 24:
        raise protobuf.MessageError(f"a tensor of shape {tuple(shape)}")
    return tuple(shape)


def _repeated(values: list[int | bytes], layout: str) -> NDArray[Any]:
    """Values given one by one: packed into a field's bytes, or each in a field of its own."""
    if layout in ("<f4", "<f8"):
        data = b"".join(protobuf.octets(value) for value in values)
        if len(data) % np.dtype(layout).itemsize:
            raise protobuf.MessageError("a tensor with half a number")
        return np.frombuffer(data, layout)
    whole: list[int] = []
    for value in values:
        whole += [protobuf.signed(value)] if isinstance(value, int) else protobuf.varints(value)
    kind = np.dtype(layout)
    # As 64-bit numbers first: a value beyond the type wraps, as it does in the other tools.
    return np.array([w & 0xFFFF_FFFF_FFFF_FFFF for w in whole], np.uint64).astype(kind)
