"""Findings: what they hold, how they are written and shown."""

import json
import math

import pytest

from gradwatch import Kind, Site
from gradwatch.diagnosis import Finding, Severity

FINDING = Finding(
    "dead-units",
    Severity.WARNING,
    "60% of the units of a/b are dead.",
    since=3,
    detected=9,
    until=40,
    layer="a/b",
    sites=(Site(Kind.DEAD_UNIT, "a/b"), Site(Kind.OUTPUT, "a/b")),
    evidence={"share": 0.6, "units": 12, "ratio": math.inf, "loss": "mse", "nothing": math.nan},
    remedy="Do this.",
    group="generator",
)


def test_a_finding_comes_back_from_json_as_it_was():
    back = Finding.from_json(FINDING.to_json())
    assert math.isnan(back.evidence["nothing"])
    assert {**back.evidence, "nothing": 0} == {**FINDING.evidence, "nothing": 0}
    assert back.sites == FINDING.sites
    assert (back.since, back.detected, back.until, back.group) == (3, 9, 40, "generator")


def test_its_json_is_one_line_that_any_reader_takes():
    text = FINDING.to_json()
    assert "\n" not in text
    # NaN and Infinity are no JSON, and most other readers refuse them.
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in the JSON"))


def test_what_is_no_finding_is_refused_with_what_was_received():
    with pytest.raises(ValueError, match=r"Not a finding.*Received: '\{\"rule\": 3\}'"):
        Finding.from_json('{"rule": 3}')


def test_the_text_says_when_it_began_and_ended_and_where():
    text = FINDING.text()
    assert text.startswith("warning: 60% of the units of a/b are dead. (steps 3 to 40)")
    assert "share 0.6, units 12" in text
    assert "dead_unit a/b, output a/b" in text
    assert text.endswith("Do this. [dead-units]")


def test_no_escape_sequence_of_a_layers_name_reaches_the_terminal():
    finding = Finding("r", Severity.INFO, "\x1b[31mred\x1b[0m", since=1, detected=1)
    assert "\x1b" not in finding.text()


def test_information_and_what_is_explained_are_no_alarms():
    assert FINDING.is_alarm
    assert not Finding("r", Severity.INFO, "", since=1, detected=1).is_alarm
    explained = Finding("r", Severity.ERROR, "", since=1, detected=1, explained_by="non-finite")
    assert not explained.is_alarm
