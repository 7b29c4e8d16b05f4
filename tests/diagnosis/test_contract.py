"""The contract of all rules, including those about ranks; it covers new rules automatically."""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from gradwatch import Kind, silence
from gradwatch.core import KINDS, LayerFacts, LossFacts, OptimizerFacts
from gradwatch.diagnosis import Diagnosis, Finding, ModelFacts
from gradwatch.diagnosis.precedence import explains
from gradwatch.diagnosis.rank_rule import RANK_RULES
from gradwatch.diagnosis.rule import RULES

from .support import course, facts_of, falling, observed

ALL = {**RULES, **RANK_RULES}
DOCS = Path(__file__).parents[2] / "docs" / "rules"
TENSOR_KINDS = [kind for kind in KINDS.values() if not kind.is_number]
FACTS = facts_of(
    [("net/a", "Dense", "relu", 4), ("net/b", "Dense", "softmax", 2)],
    "categorical_crossentropy",
    optimizer="adam",
    batch_size=32,
)

PARTS_OF_FACTS = {
    "nothing known": ModelFacts(),
    "facts known": FACTS,
    "layers unknown": replace(FACTS, layers=()),
    "output unknown": replace(FACTS, outputs=()),
    "output not among the layers": replace(FACTS, outputs=["net/c"]),
    "only paths of layers known": replace(FACTS, layers=[LayerFacts(x.path) for x in FACTS.layers]),
    "loss unknown": replace(FACTS, loss=LossFacts()),
    "only the loss known": ModelFacts(loss=FACTS.loss),
    "optimizer unknown": replace(FACTS, optimizer=OptimizerFacts(), batch_size=None),
}

every_rule = pytest.mark.parametrize("name", ALL)
every_live_rule = pytest.mark.parametrize("name", RULES)


def arrays_of(value):
    """Arrays of every kind, of two layers with a kernel and a bias each."""

    def arrays(step):
        found = {}
        for kind in TENSOR_KINDS:
            for layer in ("net/a", "net/b"):
                parts = ("kernel", "bias") if kind.is_of_variable else ("",)
                for part in parts:
                    found[kind, f"{layer}/{part}".rstrip("/")] = value(step)
        return found

    return arrays


WILD = {
    "zeros": lambda step: np.zeros(6),
    "nothing": lambda step: np.empty(0),
    "NaN": lambda step: np.full(6, np.nan),
    "Inf": lambda step: np.array([np.inf, -np.inf, 1.0]),
    "one element": lambda step: np.array([0.5]),
    "constant": lambda step: np.full(6, 3.0),
    "huge": lambda step: np.full(6, 1e300),
    "tiny": lambda step: np.full(6, 1e-300),
    "negative": lambda step: -np.arange(6.0),
    "appearing": lambda step: np.empty(0) if step < 5 else np.ones(6) * step,
}


@every_rule
def test_a_rule_has_a_name_words_a_remedy_and_reasons(name):
    rule = ALL[name]
    assert rule.name == name
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", name)
    assert rule.about.endswith(".")
    # Rules whose remedy depends on the symptom give it with the finding.
    assert rule.remedy or name in ("non-finite", "structural-mismatch", "non-finite-rank")
    for threshold in rule.thresholds.values():
        assert np.isfinite(threshold.value)
        assert threshold.reason


@every_rule
def test_a_rule_is_documented(name):
    assert (DOCS / f"{name}.md").read_text().startswith(f"# {name}\n")


@every_rule
def test_a_rule_can_be_silenced_and_its_thresholds_changed(name):
    thresholds = {name: {each: x.value * 2 for each, x in ALL[name].thresholds.items()}}
    Diagnosis(rules=[name], thresholds=thresholds, silence=silence(name, because="a test"))
    with pytest.raises(ValueError, match=f"The rule '{name}' has no threshold 'no such'"):
        Diagnosis(thresholds={name: {"no such": 1.0}})


@every_rule
def test_a_rule_does_not_explain_itself(name):
    assert not explains(name, name)


@cache
def wild_course(wild):
    return course(12, arrays_of(WILD[wild]), [1.0] * 12)


@every_live_rule
@pytest.mark.parametrize("facts", PARTS_OF_FACTS.values(), ids=PARTS_OF_FACTS)
def test_a_rule_never_raises_and_says_what_can_be_kept(name, facts):
    for wild in WILD:
        # `observed` fails the test if the rule raises.
        for finding in observed(wild_course(wild), facts, rules=[name]).findings:
            assert finding.rule == name, wild
            assert Finding.from_json(finding.to_json()) == finding, wild
            assert finding.text().endswith(f"[{name}]"), wild
            assert 1 <= finding.since <= finding.detected <= 12, wild


@every_live_rule
def test_a_rule_is_silent_about_nothing_and_about_losses_alone(name):
    diagnosis = Diagnosis(rules=[name])
    assert diagnosis.findings == []
    for step, loss in enumerate(falling(80), 1):
        diagnosis.observe_losses([(step, loss)])
    assert diagnosis.findings == []


@every_live_rule
def test_a_rule_is_silent_about_a_healthy_training(name):
    rng = np.random.default_rng(0)
    scales = {Kind.UPDATE: 1e-3, Kind.DEAD_UNIT: 0.0, Kind.SATURATED: 0.0, Kind.GRADIENT: 1e-2}

    def arrays(step):
        made = arrays_of(lambda step: rng.normal(size=64))(step)
        return {site: x * scales.get(site[0], 1.0) for site, x in made.items()}

    facts = ModelFacts(FACTS.layers, ["net/b"], batch_size=32)
    assert observed(course(60, arrays, falling(60)), facts, rules=[name]).alarms == []


@every_live_rule
def test_a_rule_finds_nothing_where_it_is_silenced(name):
    told = silence(name, because="a test")
    for wild in WILD:
        assert observed(wild_course(wild), FACTS, rules=[name], silence=told).findings == []
