"""Small bars, tables, sizes and strict JSON."""

import math

import numpy as np
import pytest

from gradwatch.util.text import display_width, shortened
from gradwatch.util.text_table import TextColumn, fit, plain_lines
from gradwatch.util.words import bytes_, compact, duration
from gradwatch.view.data import to_json
from gradwatch.view.text.sparkline import BARS, PLAIN_BARS, bars_for, sparkline
from tests.cli.support import strict


def test_equal_ratios_are_equal_heights():
    assert sparkline([10.0**i for i in range(8)]) == BARS


def test_equal_differences_are_equal_heights_on_a_plain_scale():
    assert sparkline(range(8), log=False) == BARS


def test_noise_of_a_few_percent_is_a_flat_line():
    noise = np.random.default_rng(0).uniform(0.97, 1.03, size=50)
    assert len(set(sparkline(noise))) == 1 or set(sparkline(noise)) <= set(BARS[3:5])


def test_zero_gaps_and_what_is_not_finite_have_signs_of_their_own():
    assert sparkline([0.0, math.nan, math.inf, 1.0]) == "_ !▅"
    assert sparkline([1.0, 1.0], [False, True]) == "▅!"
    assert sparkline([]) == ""
    assert sparkline([math.nan]) == " "


def test_the_smallest_and_largest_doubles_can_be_drawn():
    assert sparkline([5e-324, 1.7e308]) == "▁█"


@pytest.mark.parametrize(("encoding", "bars"), [("utf-8", BARS), ("latin-1", PLAIN_BARS)])
def test_bars_are_those_that_the_output_can_show(encoding, bars):
    assert bars_for(encoding) == bars


@pytest.mark.parametrize("room", [4, 10, 24, 40, 100])
def test_a_table_is_never_wider_than_its_room(room):
    columns = [
        TextColumn("name", ["日本語" * 9, "a" * 50, "b"], left=True, weight=0),
        TextColumn("light", ["1", "22", "333"], weight=1),
        TextColumn("heavy", ["1.5", "2.5", "3.5"], weight=9),
    ]
    rows = plain_lines(fit(columns, room))
    assert max(map(display_width, rows)) <= max(room, 1)
    assert ("heavy" in rows[0]) or room < 24
    assert ("light" in rows[0]) <= ("heavy" in rows[0])


def test_a_name_is_shortened_in_its_middle():
    assert shortened("abcdefghij", 5) == "ab…ij"
    assert display_width(shortened("日本語日本語", 5)) <= 5


@pytest.mark.parametrize(
    ("size", "words"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_999, "1.0 MB"), (1e16, "10000 TB")],
)
def test_sizes(size, words):
    assert bytes_(size) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(59.96, "1 min 00 s"), (3599.6, "1 h 00 min"), (86400, "1 d 00 h")]
)
def test_durations_do_not_show_60_seconds(seconds, words):
    assert duration(seconds) == words


def test_numbers_keep_three_digits():
    assert [compact(v) for v in (100.0, -0.5, 1e-12)] == ["100", "-0.500", "1.00e-12"]


def test_json_is_strict_whatever_is_in_it():
    value = {
        "a": np.float32(0.5),
        "b": np.array([1.0, np.nan, -np.inf]),
        "c": np.int64(3),
        "d": (True, None, b"\x01"),
        "e": "\x1b\ud800",
    }
    text = to_json(value)
    assert text.isascii()
    assert strict(text) == {
        "a": 0.5,
        "b": [1.0, "nan", "-inf"],
        "c": 3,
        "d": [True, None, "01"],
        "e": "\x1b\ud800",
    }
