"""What is said of a run beside its numbers."""

import json

import numpy as np
import pytest

import gradwatch
from gradwatch.core import Kind, Site
from gradwatch.diagnosis.finding import Finding, Severity
from gradwatch.view.data import RunView, entry, overview
from gradwatch.view.data.labels import menu_of, tensor_kinds
from tests.store.recorded import loss_at, settle


def test_an_overview_is_what_the_reader_says(shown):
    run = shown.run
    answer = overview(shown, [])
    assert (answer["id"], answer["name"], answer["status"]) == ("the-id", "blocks", "finished")
    assert (answer["first_step"], answer["last_step"], answer["steps"]) == (1, 60, 60)
    assert answer["duration"] == run.duration == 59.0
    assert answer["epochs"][1] == {"epoch": 2, "first": 11, "last": 20, "exact": True}
    assert [(k["kind"], k["sites"]) for k in answer["kinds"]] == [
        ("gradient", 9),
        ("update", 9),
        ("weight", 9),
    ]
    assert answer["kinds"][1]["statistics"][0]["name"] == "update_ratio"
    assert answer["numbers"] == [{"kind": "loss", "path": "loss"}]
    assert answer["findings_complete"]
    json.dumps(answer, allow_nan=False)


def test_findings_have_strict_json_in_their_evidence(shown):
    evidence = {"norm": float("inf"), "share": float("nan"), "count": 3, "name": "x"}
    sites = (Site(Kind.GRADIENT, "a/kernel"),)
    finding = Finding("rule", Severity.ERROR, "Bad.", 1, 2, sites=sites, evidence=evidence)
    [found] = overview(shown, [finding], complete=False)["findings"]
    assert found["evidence"] == {"norm": "inf", "share": "nan", "count": 3, "name": "x"}
    assert found["sites"] == [["gradient", "a/kernel"]]
    assert found["severity"] == "error"


def test_rules_that_found_something_are_explained_but_for_those_that_are_unknown(shown):
    found = [Finding(name, Severity.ERROR, "Bad.", 1, 2) for name in ("unknown", "dead-units")]
    rules = overview(shown, found)["rules"]
    assert list(rules) == ["dead-units"]
    assert rules["dead-units"]["thresholds"]["warn share"]["value"] == 0.5


def test_every_kind_that_is_no_number_has_an_order_a_label_and_statistics():
    for kind in tensor_kinds():
        assert kind.label
        names = [about["name"] for about in menu_of(kind, with_ratio=True)]
        own = next(iter(kind.shown_as), kind.default_statistic)
        assert names[0] == ("update_ratio" if kind is Kind.UPDATE else own)
        assert len(set(names)) == len(names) > 1
        assert ("update_ratio" in names) == (kind is Kind.UPDATE)
    without = [about["name"] for about in menu_of(Kind.UPDATE, with_ratio=False)]
    assert "update_ratio" not in without


def test_facts_that_are_not_what_they_should_be_are_left_out(tmp_path):
    with gradwatch.Monitor(tmp_path / "a", every=1, sinks=[gradwatch.Store()]) as monitor:
        monitor.record(gradients={"a/kernel": np.ones(2)})
    run = gradwatch.open(tmp_path / "a")
    for told in ({}, {"fits": 3, "model": [1], "cost": "?"}, {"fits": [None], "cost": {"x": 1}}):
        run._facts = told
        answer = overview(RunView(run), [])
        assert answer["cost"] == ""
        assert {fact["name"] for fact in answer["facts"]} >= {"started", "took", "steps"}


def test_no_file_is_named_by_where_it_is(tmp_path):
    with gradwatch.Monitor(tmp_path / "a", every=1, sinks=[gradwatch.Store()]) as monitor:
        monitor.record(gradients={"a/kernel": np.ones(2)})
    settle()
    for segment in (tmp_path / "a" / "segments").iterdir():
        segment.write_bytes(segment.read_bytes()[:-3])
    answer = overview(RunView(gradwatch.open(tmp_path / "a")), [])
    assert answer["status"] == "damaged"
    assert answer["damage"]
    assert str(tmp_path) not in json.dumps(answer)


def test_an_entry_has_the_last_loss(shown):
    known = entry(shown.run, "id", "name", None)
    assert known["loss"] == pytest.approx(float(loss_at(60)))
    assert known["health"]["condition"] == "not diagnosed"
    findings = [
        Finding("a", Severity.ERROR, "It is broken.", 1, 2),
        Finding("b", Severity.WARNING, "", 1, 2),
        Finding("c", Severity.WARNING, "", 1, 2, explained_by="a"),
        Finding("d", Severity.INFO, "", 1, 2),
    ]
    assert entry(shown.run, "id", "name", findings)["health"] == {
        "condition": "error", "headline": "It is broken.", "errors": 1, "warnings": 1
    }  # fmt: skip


def test_an_empty_run_has_an_overview(tmp_path):
    gradwatch.Monitor(tmp_path / "a", every=1, sinks=[gradwatch.Store()]).close()
    (tmp_path / "a").mkdir(exist_ok=True)
    from gradwatch.read.run import Run

    answer = overview(RunView(Run(tmp_path / "a")), [])
    assert (answer["steps"], answer["kinds"], answer["last_step"]) == (0, [], None)
