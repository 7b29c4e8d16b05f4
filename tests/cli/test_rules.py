"""`gradwatch rules`: all rules, and one of them in detail."""

import json

from gradwatch.diagnosis import all_rules
from tests.cli.support import invoke


def test_all_rules_are_listed_with_what_they_look_for():
    said = invoke("rules").stdout
    for name, rule in all_rules().items():
        assert f"{name}: {rule.about}" in said


def test_a_rule_is_explained_with_its_numbers_and_how_to_silence_it():
    said = invoke("rules", "dead-units").stdout
    rule = all_rules()["dead-units"]
    assert rule.remedy in said
    for name, threshold in rule.thresholds.items():
        assert f"{name} = {threshold.value:g}: {threshold.reason}" in said
    assert 'gradwatch.silence("dead-units", because="...")' in said


def test_a_rule_is_explained_in_json():
    (found,) = json.loads(invoke("rules", "vanishing-gradients", "--json").stdout)
    assert found["rule"] == "vanishing-gradients"
    assert found["thresholds"]["ratio"]["value"] == 1e-3


def test_a_name_that_is_not_there_is_a_mistake_in_the_command():
    said = invoke("rules", "dead-unit", code=2).output
    assert "There is no rule 'dead-unit'. Did you mean 'dead-units'?" in said
