"""Files of a run with arbitrary content and right checksums, as no writer makes them."""

from __future__ import annotations

import copy
import json
import struct
from typing import Any

import hypothesis.strategies as st

from gradwatch.store import frames

_LARGE = [1 << 20, 1 << 31, 1 << 32, 1 << 53, 1 << 63, 1 << 64, 10**9, 10**30]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 40),
    st.sampled_from([sign * each for each in _LARGE for sign in (1, -1)]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "x", "gradient", "../../x", "\ud800", "a" * 5000, "NaN", "=", "<f8"]),
)
JUNK = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["kind", "path", "x", "step", "tables"]), inner, max_size=3
        ),
    ),
    max_leaves=5,
)


@st.composite
def changed(draw: st.DrawFn, document: Any) -> Any:
    """A JSON document with one to three places replaced, removed, repeated or added to."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        document = _change(draw, document)
    return document


def _change(draw: st.DrawFn, document: Any) -> Any:
    parent, key, node = None, None, document
    while isinstance(node, dict | list) and node and (parent is None or draw(st.integers(0, 3))):
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        parent, key = node, draw(st.sampled_from(keys))
        node = node[key]
    if parent is None:
        return draw(JUNK)
    how = draw(st.sampled_from(["replace", "replace", "remove", "repeat", "add"]))
    if how == "remove":
        del parent[key]
    elif how == "repeat" and isinstance(parent, list):
        parent.insert(key, copy.deepcopy(node))
    elif how == "add" and isinstance(node, dict):
        node[draw(st.sampled_from(["", "x", "tables", "10"]))] = draw(JUNK)
    elif how == "add" and isinstance(node, list):
        node.append(draw(JUNK))
    else:
        parent[key] = draw(JUNK)
    return document


@st.composite
def changed_journal(draw: st.DrawFn, data: bytes) -> bytes:
    """A journal with a few records changed; their checksums are right."""
    found = [
        [frame.kind, frame.number, *_taken_apart(frame.payload)] for frame in frames.scan(data)
    ]
    for _ in range(draw(st.integers(1, 3))):
        record = found[draw(st.integers(0, len(found) - 1))]
        how = draw(st.sampled_from(["text", "text", "text", "data", "kind", "number", "remove"]))
        if how == "text":
            record[2] = draw(changed(record[2]))
        elif how == "data":
            cut = draw(st.integers(0, len(record[3])))
            record[3] = draw(st.sampled_from([record[3][:cut], record[3] + bytes(cut), b""]))
        elif how == "kind":
            record[0] = draw(st.sampled_from("WSARPFE?\x00"))
        elif how == "number":
            record[1] = draw(st.sampled_from([0, 1, 7, 1 << 31]))
        elif len(found) > 1:
            found.remove(record)
    return b"".join(
        frames.encode(kind, number, _put_together(text, rest)) for kind, number, text, rest in found
    )


@st.composite
def changed_bytes(draw: st.DrawFn, data: bytes) -> bytes:
    """A file with bytes replaced, left out or put in; its checksums are wrong."""
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        end = min(len(data), at + draw(st.sampled_from([0, 1, 4, 20, 1000])))
        put = draw(st.one_of(st.binary(max_size=20), st.just(frames.MAGIC), st.just(bytes(5000))))
        data = data[:at] + put + data[end:]
    return data


def _taken_apart(payload: bytes) -> tuple[Any, bytes]:
    (length,) = struct.unpack_from("<I", payload)
    return json.loads(payload[4 : 4 + length]), payload[4 + length :]


def _put_together(text: Any, rest: bytes) -> bytes:
    encoded = json.dumps(text).encode("ascii")
    return struct.pack("<I", len(encoded)) + encoded + rest
