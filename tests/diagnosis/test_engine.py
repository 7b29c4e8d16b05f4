"""Opening, keeping up, closing and explaining findings; users' own rules and wishes."""

import numpy as np
import pytest

import gradwatch
from gradwatch import Kind
from gradwatch.core import LayerFacts, LossFacts, OptimizerFacts
from gradwatch.diagnosis import Diagnosis, ModelFacts, Symptom, Threshold, diagnose, rule, silence
from gradwatch.diagnosis.precedence import _EXPLAINS, explains
from gradwatch.diagnosis.rule import RULES

from .support import Keep, course, facts_of, found, observed, reading

G, U, W = Kind.GRADIENT, Kind.UPDATE, Kind.WEIGHT


@pytest.fixture
def own_rule():
    """Declares rules for the duration of a test."""
    known = dict(RULES)
    yield rule
    RULES.clear()
    RULES.update(known)


def one(value=1.0):
    return {(G, "net/a/kernel"): [value], (G, "net/b/kernel"): [1.0]}


def test_a_function_becomes_a_rule_that_every_diagnosis_asks(own_rule):
    @own_rule("large", severity="error", remedy="Make it smaller.", thresholds={"most": 5.0})
    def large(history, facts, limits):
        """The first gradient is large."""
        value = history[G].latest("max")[0]
        if value > limits["most"]:
            yield Symptom(f"It is {value:g}.", {"value": value}, layer="net/a")

    readings = course(10, lambda s: one(float(s)), 1.0)
    finding = found(observed(readings), "large")
    assert (finding.since, finding.until, finding.severity) == (6, None, "error")
    assert finding.evidence == {"value": 10.0}, "the evidence is kept up to date"
    assert finding.remedy == "Make it smaller."
    assert RULES["large"].about == "The first gradient is large."


def test_a_rule_may_take_the_history_alone_and_return_a_string(own_rule):
    @own_rule("short")
    def short(history):
        return "Said briefly." if history.step == 3 else None

    finding = found(observed(course(8, lambda s: one(), 1.0)), "short")
    assert (finding.title, finding.since, finding.until) == ("Said briefly.", 3, 3)


def test_a_rule_that_raises_is_switched_off_and_said_once(own_rule):
    @own_rule("broken")
    def broken(history):
        raise KeyError("oops")

    said = []
    diagnosis = Diagnosis(on_error=said.append)
    for each in course(5, lambda s: one(), 1.0):
        diagnosis.observe(each)
    assert said == ["The rule 'broken' failed and is switched off for this run: KeyError: 'oops'"]
    assert diagnosis.findings == []


def test_a_finding_is_said_once_and_again_only_when_it_gets_worse(own_rule):
    @own_rule("growing")
    def growing(history):
        if history.step > 2:
            yield Symptom("It grows.", severity=RULES["loss-diverging"].severity if
                          history.step > 5 else None)  # fmt: skip

    diagnosis = Diagnosis()
    news = [diagnosis.observe(each) for each in course(8, lambda s: one(), 1.0)]
    said = [(i + 1, f.severity) for i, found in enumerate(news) for f in found]
    assert said == [(3, "warning"), (6, "error")]
    assert len(diagnosis.findings) == 1


def test_a_symptom_that_comes_back_opens_its_finding_again(own_rule):
    @own_rule("now and then")
    def now_and_then(history):
        return "Here." if history.step in (2, 3, 12) else None

    diagnosis = Diagnosis()
    said = []
    for each in course(10, lambda s: one(), 1.0):
        said += diagnosis.observe(each)
    assert (found(diagnosis, "now and then").since, found(diagnosis, "now and then").until) == (
        2,
        3,
    )
    for step in (11, 12):
        said += diagnosis.observe(reading(step, one(), 1.0))
    finding = found(diagnosis, "now and then")
    assert (finding.since, finding.until, len(said)) == (2, None, 1)


def test_a_rule_is_asked_only_when_what_it_needs_was_measured(own_rule):
    asked = []

    @own_rule("weights", needs=[Kind.WEIGHT])
    def weights(history):
        asked.append(history.step)

    observed(
        [reading(s, {(Kind.WEIGHT if s % 2 else G, "net/a/kernel"): [1.0]}) for s in range(1, 7)]
    )
    assert asked == [1, 3, 5]


def test_silenced_sites_are_left_out_and_the_rest_is_heard():
    def cut(step):
        return {(G, f"net/{name}/kernel"): [0.0] for name in "ab"} | {(G, "net/c/kernel"): [1.0]}

    readings = course(8, cut, 2.0)
    why = silence("zero-gradients", "a", because="not used in this phase")
    finding = found(observed(readings, silence=why), "zero-gradients")
    assert [site.path for site in finding.sites] == ["net/b/kernel"]
    assert finding.layer == "net/b"
    both = [why, silence("zero-gradients", "b/kernel", because="the same")]
    assert observed(readings, silence=both).findings == []
    everywhere = silence("zero-gradients", because="known")
    diagnosis = observed(readings, silence=everywhere)
    assert diagnosis.findings == []
    assert diagnosis.silences[0].facts() == {
        "rule": "zero-gradients", "where": "everywhere", "because": "known",
    }  # fmt: skip


def test_silence_needs_a_reason():
    with pytest.raises(ValueError, match="Say why 'dead-units' is silenced"):
        silence("dead-units", because="")


def test_thresholds_can_be_changed_for_all_sites_or_for_some(own_rule):
    @own_rule("large", thresholds={"most": Threshold(5.0, "why not")})
    def large(history, facts, limits):
        table = history[G]
        above = table.latest("max") > limits.per_site("most", table.sites)
        for i in np.flatnonzero(above):
            yield Symptom("Large.", sites=[table.sites[i]], about=table.sites[i].path)

    readings = [reading(1, {(G, "net/a/kernel"): [7.0], (G, "net/b/kernel"): [7.0]})]

    def paths(thresholds):
        findings = observed(readings, thresholds=thresholds).findings
        return [f.sites[0].path for f in findings if f.rule == "large"]

    assert paths({}) == ["net/a/kernel", "net/b/kernel"]
    assert paths({"large": {"most": 8.0}}) == []
    assert paths({"large": {"most": 8.0, "b": {"most": 6.0}}}) == ["net/b/kernel"]


def test_rules_and_thresholds_that_do_not_exist_are_refused_with_near_ones():
    with pytest.raises(ValueError, match=r"no rule 'dead-unit'\. There are: dead-units"):
        Diagnosis(rules=["dead-unit"])
    with pytest.raises(ValueError, match=r"no threshold 'share'\. It has: warn share"):
        Diagnosis(thresholds={"dead-units": {"share": 1}})
    with pytest.raises(ValueError, match="no rule 'x'"):
        Diagnosis(silence=silence("x", because="y"))
    with pytest.raises(ValueError, match="severity is one of info, warning, error"):
        rule("x", severity="bad")


def test_only_the_rules_that_are_wished_are_asked():
    readings = course(8, lambda s: {(G, "net/a/kernel"): [0.0]}, 2.0)
    assert observed(readings, rules=["loss-diverging"]).findings == []


def test_no_two_rules_explain_each_other():
    def causes(symptom, seen=()):
        for cause in _EXPLAINS:
            if explains(cause, symptom):
                assert cause not in seen, f"{cause} explains itself by way of {seen}"
                causes(cause, (*seen, cause))

    for name in _EXPLAINS:
        causes(name, (name,))
        assert name in RULES
        assert set(_EXPLAINS[name]) <= set(RULES)


def test_parts_of_a_training_have_findings_of_their_own():
    def both(step):
        good = reading(step, {(G, "generator/a/kernel"): [1.0]}, 1.0, group="generator")
        bad = reading(step, {(G, "critic/a/kernel"): [0.0]}, 1.0, group="critic")
        return [good, bad]

    diagnosis = observed([each for step in range(1, 9) for each in both(step)])
    assert found(diagnosis, "zero-gradients").group == "critic"


def test_a_run_is_diagnosed_as_it_would_have_been_live(tmp_path):
    monitor = gradwatch.Monitor(
        tmp_path, every=1, watch=[gradwatch.gradients()], sinks=[keep := Keep(), gradwatch.Store()]
    )
    for step in range(1, 13):
        kernel = np.zeros(4) if step > 5 else np.ones(4)
        monitor.record(gradients={"a/kernel": kernel, "b/kernel": np.ones(3)}, loss=2.0)
    monitor.close()
    live = observed(keep.readings)
    with gradwatch.open(tmp_path) as run:
        after = diagnose(run)
    assert [f.facts() for f in after.findings] == [f.facts() for f in live.findings]
    finding = found(after, "zero-gradients")
    assert (finding.since, finding.detected, finding.layer) == (6, 10, "a")


def test_what_epochs_ended_with_is_heard_in_its_place():
    readings = course(40, lambda s: one(), 1.0)
    train = [1.0, 0.6, 0.4, 0.2, 0.1, 0.05, 0.02, 0.01]
    validation = [1.0, 0.9, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0]
    logs = [
        (i + 1, 5 * (i + 1), {"loss": a, "val_loss": b})
        for i, (a, b) in enumerate(zip(train, validation, strict=True))
    ]
    finding = found(diagnose(readings, epochs=logs), "overfitting")
    assert finding.since == 10
    assert finding.detected <= 40


def test_facts_come_back_from_json_and_strange_ones_are_left_out():
    facts = ModelFacts(
        [LayerFacts("net/a", "Dense", "relu", 8, True, "float32")],
        ["net/a"],
        LossFacts("mse", None, True, "sum"),
        OptimizerFacts("adam", 1e-3, False, 2.0**15),
        targets_are_whole=False,
        batch_size=32,
        precision="mixed_float16",
    )
    values = facts.to_json()
    assert ModelFacts.from_json(values) == facts
    values["layers"][0]["colour"] = "red"
    values["mood"] = "good"
    assert ModelFacts.from_json(values) == facts
    assert ModelFacts.from_json({}) == ModelFacts()
    assert OptimizerFacts("sgd", float("inf")).learning_rate is None


def _blown_up(step):
    """The kernels grow in each step by a half, and once they are large, by next to nothing."""
    change = 0.5 if step < 12 else 1e-6
    sites = [f"net/{name}/kernel" for name in "abcd"]
    return {(W, x): [1.0] for x in sites} | {(U, x): [change] for x in sites}


def test_a_cause_is_at_least_as_severe_as_what_it_hides():
    losses = [2.0 * 1.3**step for step in range(40)]
    diagnosis = Diagnosis()
    news = [f for each in course(40, _blown_up, losses) for f in diagnosis.observe(each)]
    hidden = found(diagnosis, "loss-diverging")
    assert (hidden.severity, hidden.explained_by) == ("error", "learning-rate-too-high")
    assert [f.rule for f in diagnosis.alarms] == ["learning-rate-too-high"]
    assert diagnosis.alarms[0].severity == "error"
    assert [f.rule for f in news if f.is_alarm] == ["learning-rate-too-high"]


def test_what_is_mild_explains_nothing_serious():
    facts = facts_of([("net/out", "Dense", "sigmoid", 3)], "categorical_crossentropy")
    silent = {(Kind.GRADIENT, f"net/{name}/kernel"): [0.0] for name in "ab"}
    targets = {(Kind.TARGET, "target"): [0.0, 0.0, 1.0]}
    diagnosis = observed(course(20, lambda step: silent | targets, 1.1), facts)
    assert found(diagnosis, "structural-mismatch").severity == "info"
    assert "zero-gradients" in [finding.rule for finding in diagnosis.alarms]


def test_a_rate_that_is_too_high_is_not_too_low_as_well():
    losses = [2.0] * 2 + [1e6] * 38
    diagnosis = observed(course(40, _blown_up, losses))
    rules = {finding.rule for finding in diagnosis.findings}
    assert "learning-rate-too-high" in rules
    assert "learning-rate-too-low" not in rules
    # Steps are as small without the large ones before them.
    small = observed(course(40, lambda s: _blown_up(12), 2.0))
    assert found(small, "learning-rate-too-low").is_alarm


def test_the_initial_loss_is_that_before_the_loss_blew_up_in_all_findings():
    losses = [5.0, 3e8, 4e8, 2e8, 1e8, *[1e5 * 0.97**s for s in range(35)]]
    findings = observed(course(40, _blown_up, losses)).findings
    told = {f.rule: f.evidence["initial loss"] for f in findings if "initial loss" in f.evidence}
    assert {"learning-rate-too-high", "loss-diverging"} <= set(told)
    assert set(told.values()) == {5.0}
