"""Frames are found whole, or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradwatch.store import frames
from gradwatch.store.frames import Frame, FrameGap

PAYLOADS = [b"", b"abc", frames.MAGIC * 3, bytes(range(256)) * 5, b"end"]
DATA = b"".join(frames.encode("R", i, payload) for i, payload in enumerate(PAYLOADS))
ENDS = [frame.end for frame in frames.scan(DATA)]


def test_frames_come_back_with_their_numbers_and_places():
    found = list(frames.scan(DATA))
    assert [(f.kind, f.number, f.payload) for f in found] == [
        ("R", i, payload) for i, payload in enumerate(PAYLOADS)
    ]
    assert [DATA[f.start : f.end] for f in found] == [
        frames.encode("R", f.number, f.payload) for f in found
    ]


def test_cut_at_any_byte_every_complete_frame_is_found():
    for length in range(len(DATA)):
        found = frames.scan_all(DATA[:length])
        complete = sum(end <= length for end in ENDS)
        assert [f.payload for f in found if isinstance(f, Frame)] == PAYLOADS[:complete]
        end = [0, *ENDS][complete]
        gaps = [FrameGap(end, length, at_end=True)] if end < length else []
        assert [f for f in found if isinstance(f, FrameGap)] == gaps


def test_a_flipped_bit_costs_its_own_frame_and_no_other():
    for position in range(len(DATA)):
        damaged = bytearray(DATA)
        damaged[position] ^= 1 << (position % 8)
        hit = next(i for i, end in enumerate(ENDS) if position < end)
        # Three bytes of the header say nothing.
        is_spare = 5 <= position - [0, *ENDS][hit] < 8
        whole = [payload for i, payload in enumerate(PAYLOADS) if is_spare or i != hit]
        assert [f.payload for f in frames.scan(bytes(damaged))] == whole


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_no_frame_is_found_in_noise(noise):
    assert list(frames.scan(noise)) == []


def test_a_frame_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(frames, "LARGEST", 10)
    with pytest.raises(ValueError, match="Received: 11"):
        frames.encode("R", 0, bytes(11))
