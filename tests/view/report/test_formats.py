"""Markdown and JSON tell what the reader does, in forms that names cannot break."""

import re
from html import unescape

import numpy as np
import pytest

import gradwatch
from gradwatch.view.report.markdown_text import code, prose
from tests.cli.support import invoke, strict
from tests.view.report.made import HOSTILE


def cells_of(line):
    """The cells of a row, split as GitHub splits them: at bars without a backslash."""
    parts = re.split(r"(?<!\\)(?:\\\\)*\|", line)
    return [part.strip() for part in parts[1:-1]]


def tables_of(text):
    """The tables, each a list of rows."""
    blocks = re.findall(r"(?:^\|.*\n)+", text, re.M)
    return [[cells_of(line) for line in block.splitlines()] for block in blocks]


def test_the_json_tells_what_the_reader_does(golden_run):
    facts = strict(invoke("report", golden_run, "--format", "json").stdout)
    with gradwatch.open(golden_run) as run:
        layers = {layer["layer"]: layer for layer in facts["layers"]}
        for name, layer in layers.items():
            for kind in ("gradient", "weight"):
                value = run.series(kind, name, "l2")[1][-1]
                if run.series(kind, name, "nan")[1][-1]:
                    value = np.nan
                shown = float(layer[f"{kind}_l2"])
                assert shown == pytest.approx(value, rel=1e-12, nan_ok=True)
            ratio = run.series("update", name, "update_ratio")[1][-1]
            assert layer["update_ratio"] == pytest.approx(ratio, rel=1e-9)
            assert layer["nonfinite"] == sum(
                np.sum([run.series(s.kind, s.path, field)[1].sum() for field in BAD])
                for s in run.sites()
                if s.layer == name and s.kind != "loss"
            )
        assert facts["numbers"][0]["last"] == run.losses()["loss"][1][-1]
        assert facts["measured_steps"] == len(run.steps())
    assert facts["verdict"] == "warnings"
    assert [f["rule"] for f in facts["findings"]] == ["non-finite"]
    assert facts["worst_layers"][0]["layer"] == "net/logits"


BAD = ("nan", "posinf", "neginf")


def test_the_markdown_has_verdict_findings_and_the_worst_layer_first(golden_run):
    text = invoke("report", golden_run, "--format", "md").stdout
    assert "## `golden`: 🟡 1 warning" in text
    numbers, findings, layers, casts, facts = tables_of(text)
    assert findings[2][0] == "🟡 warning"
    assert findings[2][2:4] == ["`net/logits`", "step 22"]
    assert layers[2][0] == "`net/logits`"
    assert layers[2][-1] == "22"
    assert "!" in layers[2][2]
    assert numbers[2][0] == "`loss`"
    assert casts[0][0] == "tensor"
    assert all(set("123456789") & set("".join(row[1:])) for row in casts[2:])
    assert ["steps", "to 30, 30 of them measured"] in facts


def test_hostile_names_keep_every_table_of_the_markdown_whole(hostile_run):
    text = invoke("report", hostile_run, "--format", "md").stdout
    for table in tables_of(text):
        assert {len(row) for row in table} == {len(table[0])}
    outside = re.sub(r"</?code>|</?details>|</?summary>|<!-- gradwatch report -->", "", text)
    assert "<" not in outside
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e\u2028\u2029]", text)
    assert len(text) < 65_536


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_in_code_reads_as_it_is_and_is_nothing_else(name):
    text = code(name)
    if text.startswith("`"):
        assert text.count("`") == 2
        assert not re.search(r"[|<&\\\n]", text)
    else:
        inner = text.removeprefix("<code>").removesuffix("</code>")
        assert re.fullmatch(r"(?:[A-Za-z0-9]|&#\d+;)*", inner)
        if name.isprintable() and len(name) < 100:
            assert unescape(inner) == name


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_in_a_sentence_has_no_markup(name):
    text = prose(f"The gradient of {name} is 0.")
    assert not re.search(r"(?<!\\)[|`*_\[]", text.replace("\\\\", ""))
    assert "<" not in text
    assert "@all" not in text
    assert "http://" not in text


def test_a_run_without_anything_still_has_a_report(tmp_path):
    with gradwatch.Monitor(tmp_path / "run", every=100, sinks=[gradwatch.Store()]) as monitor:
        monitor.record(gradients={"a": np.ones(2)}, step=1)
    for form in ("html", "md", "json"):
        invoke("report", tmp_path / "run", "-o", tmp_path / f"report.{form}")
    assert "Nothing is wrong" in (tmp_path / "report.md").read_text()
