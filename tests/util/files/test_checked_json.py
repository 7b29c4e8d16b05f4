"""JSON files, and single files replaced as a whole."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gradwatch.util.files import atomic, checked_json
from gradwatch.util.files.checked_json import DamagedError

LONG = ["x" * 40, 1.5, None] * 50
CONTENT = {"a": [1, 2.5, None, True], "ü\ud800": {"b": "x\0y"}, "c": "123456"}


def test_what_was_written_is_read(tmp_path):
    checked_json.write(tmp_path / "a", CONTENT)
    assert checked_json.read(tmp_path / "a") == CONTENT


def test_files_with_a_long_value_in_common_share_it():
    known, path = checked_json.Known(), Path("a")
    first, second = (
        checked_json.loads(checked_json.dumps({**CONTENT, "n": n, "long": LONG}), path, known)
        for n in range(2)
    )
    assert first == {**CONTENT, "n": 0, "long": LONG}
    assert second == {**CONTENT, "n": 1, "long": LONG}
    assert first["long"] is second["long"]


def test_any_flipped_bit_is_noticed_or_harmless_where_long_values_are_known():
    known, path = checked_json.Known(), Path("a")
    content = {**CONTENT, "long": LONG}
    data = checked_json.dumps(content)
    assert checked_json.loads(data, path, known) == content
    noticed = 0
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1 << (position % 7)
        try:
            assert checked_json.loads(bytes(damaged), path, known) == content
        except DamagedError:
            noticed += 1
    assert noticed > 0.8 * len(data)


@pytest.mark.parametrize("indent", [None, 4])
def test_reformatting_is_no_damage_where_long_values_are_known(indent):
    known = checked_json.Known()
    text = json.dumps(json.loads(checked_json.dumps(CONTENT)), indent=indent)
    for _ in range(2):
        assert checked_json.loads(text.encode(), Path("a"), known) == CONTENT


def test_any_flipped_bit_is_noticed_or_harmless(tmp_path):
    path = tmp_path / "a"
    checked_json.write(path, CONTENT)
    data = path.read_bytes()
    noticed = 0
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1 << (position % 7)
        path.write_bytes(damaged)
        try:
            assert checked_json.read(path) == CONTENT
        except DamagedError as error:
            assert str(path) in str(error)  # noqa: PT017
            noticed += 1
    assert noticed > 0.8 * len(data)


@pytest.mark.parametrize("length", range(0, 100, 7))
def test_a_file_cut_short_is_noticed(tmp_path, length):
    path = tmp_path / "a"
    checked_json.write(path, CONTENT)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(DamagedError):
        checked_json.read(path)


def test_reformatting_is_no_damage(tmp_path):
    path = tmp_path / "a"
    checked_json.write(path, CONTENT)
    path.write_text(json.dumps(json.loads(path.read_text()), indent=4, sort_keys=True))
    assert checked_json.read(path) == CONTENT


def test_what_is_no_strict_json_is_refused_and_the_file_stays(tmp_path):
    checked_json.write(tmp_path / "a", CONTENT)
    with pytest.raises(ValueError, match="JSON"):
        checked_json.write(tmp_path / "a", {"x": float("nan")})
    assert checked_json.read(tmp_path / "a") == CONTENT


@pytest.mark.parametrize("name", ["fsync", "open"])
def test_a_replacement_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, name):
    path = tmp_path / "a"
    atomic.replace(path, b"old")

    def fails(*_, **__):
        raise OSError("worn out")

    owner = os if name == "fsync" else type(path)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, fails)
        with pytest.raises(OSError, match="worn out"):
            atomic.replace(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
