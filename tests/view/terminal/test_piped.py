"""`gradwatch top` where there is no terminal: once, as plain text or JSON."""

import re

import numpy as np
import pytest

from gradwatch import Kind, Site
from gradwatch.util.words import compact, percent
from tests.cli.support import arrays, invoke, make_run, strict
from tests.cli.test_names_and_widths import HOSTILE, RAW

LAST = 40


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run with NaN and zeros in it, and its tensors."""
    truth = arrays()
    truth[Site(Kind.GRADIENT, "net/conv/kernel")][7][1] = float("nan")
    truth[Site(Kind.WEIGHT, "net/dense/bias")][9][0] = float("inf")
    truth[Site(Kind.GRADIENT, "net/dense/bias")][LAST][:] = 0.0
    directory = tmp_path_factory.mktemp("runs") / "made"
    make_run(directory, truth)
    return directory, truth


def expected(truth):
    """What each layer shows, by NumPy."""
    layers = {}
    for name in ("net/conv", "net/dense"):
        of = {
            kind: [v for s, v in truth.items() if s.kind is kind and s.path.startswith(name)]
            for kind in (Kind.GRADIENT, Kind.WEIGHT, Kind.UPDATE)
        }
        last = {kind: np.concatenate([v[LAST] for v in own]) for kind, own in of.items()}
        every = [v for own in of.values() for series in own for v in series.values()]
        layers[name] = {
            "parameters": last[Kind.WEIGHT].size,
            "gradient_l2": np.linalg.norm(last[Kind.GRADIENT]),
            "weight_l2": np.linalg.norm(last[Kind.WEIGHT]),
            "update_ratio": np.linalg.norm(last[Kind.UPDATE]) / np.linalg.norm(last[Kind.WEIGHT]),
            "gradient_zero_share": np.mean(last[Kind.GRADIENT] == 0),
            "nonfinite": sum(int((~np.isfinite(v)).sum()) for v in every),
        }
    return layers


def test_json_has_the_true_numbers_in_network_order(made):
    directory, truth = made
    facts = strict(invoke("top", directory, "--json").stdout)
    assert (facts["step"], facts["epoch"], facts["status"]) == (LAST, 4, "finished")
    assert facts["steps_per_second"] == pytest.approx(1.0)
    assert facts["numbers"][0]["value"] == 1 / LAST
    want = expected(truth)
    assert [each["layer"] for each in facts["layers"]] == list(want)
    for each in facts["layers"]:
        for name, value in want[each["layer"]].items():
            assert each[name] == pytest.approx(value, rel=1e-12), (each["layer"], name)
    rules = {finding["rule"] for finding in facts["findings"]}
    assert rules == {
        finding["rule"]
        for finding in strict(invoke("diagnose", directory, "--json", code=2).stdout)["findings"]
    }
    assert "non-finite" in rules


def test_text_has_the_same_numbers_and_no_escape_sequence(made):
    directory, truth = made
    text = invoke("top", directory).stdout
    assert text == invoke("top", directory, "--once").stdout
    assert "\x1b" not in text
    for name, want in expected(truth).items():
        [row] = re.findall(rf"^{name.removeprefix('net/')} .*$", text, re.MULTILINE)
        cells = row.split()
        assert cells[1] == str(want["parameters"])
        assert cells[-5:] == [
            compact(want["gradient_l2"]),
            percent(want["gradient_zero_share"]),
            compact(want["weight_l2"]),
            compact(want["update_ratio"]),
            str(want["nonfinite"]),
        ]
        # The bar of a column with NaN is marked.
        assert ("!" in cells[2]) == (name == "net/conv")
    assert re.search(r"^error +Inf in step 9.* \(at step 9, gone since\)", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("order", "field"),
    [
        ("gradient", "gradient_l2"),
        ("update", "update_ratio"),
        ("weight", "weight_l2"),
        ("zeros", "gradient_zero_share"),
        ("nonfinite", "nonfinite"),
    ],
)
def test_it_sorts_by_what_is_asked_for(made, order, field):
    directory, truth = made
    want = expected(truth)
    largest = sorted(want, key=lambda name: want[name][field], reverse=True)
    for options, names in (((), largest), (("--reverse",), largest[::-1])):
        facts = strict(invoke("top", directory, "--json", "--sort", order, *options).stdout)
        found = [each["layer"] for each in facts["layers"]]
        assert [want[n][field] for n in found] == [want[n][field] for n in names]


def test_patterns_choose_the_sites_that_layers_are_made_of(made):
    directory, truth = made
    facts = strict(invoke("top", directory, "--json", "--sites", "kernel").stdout)
    for each in facts["layers"]:
        kernel = truth[Site(Kind.GRADIENT, f"{each['layer']}/kernel")][LAST]
        assert each["gradient_l2"] == pytest.approx(np.linalg.norm(kernel), rel=1e-12)
    text = invoke("top", directory, "--sites", "lstm").stdout
    assert "lstm selects none of 2 layers." in text
    wrong = invoke("top", directory, "--sites", "a//b", code=2)
    assert "A path pattern has no empty component" in wrong.stderr


def test_nothing_is_cut_and_no_hostile_name_gets_through(tmp_path):
    make_run(tmp_path / "a", arrays(paths=HOSTILE))
    text = invoke("top", tmp_path / "a").stdout
    assert not RAW.search(text)
    assert "long" * 200 in text
    assert r"\x1b[31mred\x1b[0m" in text


def test_mistakes_are_said_in_a_line(made, tmp_path):
    directory, _ = made
    assert "To wait for it: --wait." in invoke("top", tmp_path / "no", code=2).stderr
    assert "no rank 7" in invoke("top", directory, "--rank", 7, code=2).stderr
    assert "'colour' is not one of" in invoke("top", directory, "--sort", "colour", code=2).stderr
