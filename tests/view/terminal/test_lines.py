"""The lines of `top`: the run, its findings, its layers and its keys."""

import io
import re
import sys
from dataclasses import replace

import pytest

from gradwatch.diagnosis.finding import Finding, Severity
from gradwatch.read import Status
from gradwatch.util.text import display_width
from gradwatch.view.data import RunProgress
from gradwatch.view.terminal.frame import TopFrame, frame_text, screen
from gradwatch.view.terminal.header import FINDINGS
from gradwatch.view.terminal.keys import KeyDecoder
from gradwatch.view.terminal.view_options import ORDERS, ViewOptions

PROGRESS = RunProgress(
    name="a",
    status=Status.LIVE,
    step=12_345,
    epoch=3,
    measured_steps=100,
    steps_per_second=12.34,
    last_time=1000.0,
    duration=75.0,
    numbers=[],
    layers=[],
    all_layers=0,
    cost="measures every 5th step, for 0.70% of the training time",
    damage=0,
    lost_rows=0,
)


def finding(severity, title, **more):
    return Finding("a-rule", severity, title, since=3, detected=5, remedy="Do this.", **more)


def text(frame, width=200):
    return frame_text(frame, io.StringIO(), width).removesuffix("\n")


def lines_of(frame, width, height):
    """The lines of a screen without colours."""
    return [
        re.sub(r"\x1b\[[0-9;]*m", "", line) for line in screen(frame, sys.stdout, width, height)
    ]


def frame(progress=PROGRESS, findings=(), **more):
    return TopFrame(progress, findings, ViewOptions(), now=1001.0, **more)


def test_the_first_lines_say_where_the_run_stands_and_what_measuring_costs():
    first, second, third, *_ = text(frame()).splitlines()
    assert first == (
        "a  live  running  step 12,345 · epoch 3 · 12.3 steps/s · 100 steps measured in 1 min 15 s"
    )
    assert second == "cost          measures every 5th step, for 0.70% of the training time"
    assert third == "health        nothing is wrong as far as the rules can tell"


def test_a_live_run_from_which_nothing_comes_is_said_to_be_quiet():
    late = replace(frame(), now=1000.0 + 120)
    assert "nothing new for 2 min 00 s" in text(late)
    ended = replace(PROGRESS, status=Status.FINISHED)
    assert "nothing new" not in text(replace(late, progress=ended))


def test_open_findings_come_first_the_worst_of_them_with_its_remedy():
    found = [
        finding(Severity.ERROR, "Gone.", until=9),
        finding(Severity.WARNING, "Odd."),
        finding(Severity.ERROR, "Bad."),
        finding(Severity.ERROR, "So also.", explained_by="another"),
    ]
    lines = text(frame(findings=found)).splitlines()[2:6]
    assert lines == [
        "error         Bad. (since step 3)",
        "              Do this.",
        "warning       Odd. (since step 3)",
        "error         Gone. (steps 3 to 9, gone since)",
    ]


def test_findings_and_their_remedies_are_wrapped_and_whole():
    title, remedy = " ".join(["NaN"] * 30), " ".join(f"advice{i}" for i in range(20))
    found = [replace(finding(Severity.ERROR, title), remedy=remedy)]
    for width in (50, 80, 300):
        lines = lines_of(frame(findings=found), width, 40)
        wrapped = [line for line in lines if line.startswith(("error", " " * 14)) and line.strip()]
        said = " ".join(line[14:].rstrip() for line in wrapped)
        assert said.startswith(f"{title} (since step 3) {remedy}")
    assert f"              {remedy}" in text(frame(findings=found), None).splitlines()


def test_of_many_findings_a_screen_shows_some_and_says_how_many_more_there_are():
    found = [finding(Severity.WARNING, f"Number {i}.") for i in range(9)]
    lines = lines_of(frame(findings=found), 100, 40)
    assert sum("Number" in line for line in lines) == FINDINGS
    assert any(f"and {9 - FINDINGS} more: see gradwatch diagnose" in line for line in lines)
    assert sum("Number" in line for line in text(frame(findings=found)).splitlines()) == 9


def test_before_anything_is_known_it_says_so():
    assert text(frame(findings=None)).splitlines()[2] == "health        looking …"
    assert text(frame(progress=None)) == "Reading the run …"


@pytest.mark.parametrize("height", [1, 2, 5, 24, 60])
@pytest.mark.parametrize("width", [1, 10, 80, 300])
def test_a_screen_has_as_many_lines_as_the_terminal_and_none_is_too_wide(width, height):
    layer = {
        "layer": "net/" + "x" * 50,
        "parameters": 10,
        "weight_l2": 1.0,
        "gradient_l2": None,
        "gradient_trend": None,
        "update_ratio": float("nan"),
        "gradient_zero_share": None,
        "output_l2": None,
        "nonfinite": 3,
    }
    many = replace(PROGRESS, layers=[layer] * 50, all_layers=50)
    lines = lines_of(frame(many, [finding(Severity.ERROR, "Bad. " * 50)]), width, height)
    assert len(lines) == height
    assert max(map(display_width, lines)) <= width


def test_every_order_has_a_key_and_numbers_that_are_not_known_come_last():
    layers = [{"gradient_l2": v} for v in (1.0, None, 3.0, float("nan"), float("inf"))]
    assert ViewOptions(order="gradient").ordered(layers) == [3, 4, 2, 0, 1]
    assert ViewOptions(order="gradient", reverse=True).ordered(layers) == [0, 2, 4, 3, 1]
    for order, (key, _, _) in ORDERS.items():
        assert ViewOptions().pressed(key, 10, 5).order == order


def test_scrolling_ends_at_both_ends():
    view = ViewOptions(offset=3)
    assert view.pressed("end", 10, 4).offset == 6
    assert view.pressed("pagedown", 10, 4).offset == 6
    assert view.pressed("pageup", 10, 4).offset == 0
    assert view.pressed("down", 3, 10).offset == 0


def test_typing_a_filter_takes_keys_as_text_until_enter_or_escape():
    view = ViewOptions(patterns=("old",))
    for key in ("/", "q", "g", "x", "backspace", " ", "!", "b"):
        view = view.pressed(key, 10, 5)
    assert (view.typing, view.quit, view.patterns) == ("qg !b", False, ("old",))
    assert view.pressed("escape", 10, 5).patterns == ("old",)
    assert view.pressed("enter", 10, 5).patterns == ("qg", "!b")
    assert ViewOptions(patterns=("old",)).pressed("escape", 10, 5).patterns == ()


def test_characters_that_come_in_parts_are_one_key_and_unknown_sequences_are_none():
    keys = KeyDecoder()
    first, second = "é".encode()[:1], "é".encode()[1:]
    assert keys.decode(first) == []
    assert keys.decode(second) == ["é"]
    assert keys.decode(b"\x1b[15~\x01\x1b[1;5Aq") == ["q"]
