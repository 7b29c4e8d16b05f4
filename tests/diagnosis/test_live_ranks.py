"""What a rank other than the first says by itself while it trains."""

import io

import numpy as np

from gradwatch import Kind
from gradwatch.core import ModelFacts
from gradwatch.diagnosis import Diagnosis
from gradwatch.diagnosis.alerts import Alerts
from gradwatch.diagnosis.live import LiveDiagnosis
from gradwatch.diagnosis.settings import Settings
from gradwatch.util import Reporter
from tests.diagnosis.support import reading


def said(settings, rank):
    """What is printed of a training whose gradients are 0, and then not finite."""
    output = io.StringIO()
    diagnosis = LiveDiagnosis(settings, Reporter())
    alerts = Alerts(diagnosis, None, None, Reporter(), output)
    alerts.begin(ModelFacts(), None, rank)
    for step in range(1, 11):
        value = np.nan if step == 10 else 0.0
        diagnosis.write(reading(step, {(Kind.GRADIENT, "net/kernel"): [value, value]}))
    diagnosis.close()
    alerts.deliver()
    return output.getvalue(), [finding.rule for finding in diagnosis.findings]


def test_it_says_what_is_not_finite_with_its_number_and_nothing_else():
    text, rules = said(Settings(), rank=3)
    assert "gradwatch · rank 3 · error: NaN in step 10, first in gradient net/kernel." in text
    assert rules == ["non-finite"]


def test_the_first_rank_is_asked_all_and_says_no_number():
    text, rules = said(Settings(), rank=0)
    assert "gradwatch · error: NaN in step 10" in text
    assert "zero-gradients" in rules


def test_the_first_alarm_alone_says_how_to_read_more():
    text, _ = said(Settings(), rank=0)
    first, second = text.split("gradwatch · ")[1:]
    rule = first[first.index("[") + 1 : first.index("]")]
    assert first.rstrip().endswith(
        f"gradwatch rules {rule}: the numbers of the rule, and how to silence it."
    )
    assert "gradwatch rules" not in second


def test_rules_that_the_user_has_not_chosen_are_not_asked_there_either():
    assert said(Settings(rules=("zero-gradients",)), rank=3) == ("", [])


def test_what_becomes_worse_is_said_once_more_and_not_at_every_step():
    diagnosis = Diagnosis()
    output, loss = {(Kind.OUTPUT, "net/log"): [np.nan, 1.0]}, {(Kind.LOSS, "loss"): [np.nan]}
    courses = [output, {**output, **loss}, {**output, **loss}, {**output, **loss}]
    said = [diagnosis.observe(reading(step, each)) for step, each in enumerate(courses, start=1)]
    assert [[str(f.severity) for f in news] for news in said] == [["warning"], ["error"], [], []]
    (finding,) = diagnosis.findings
    assert finding.title == "NaN in step 1, first in output net/log."
