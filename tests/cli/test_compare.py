"""`compare`: the differences are those of the tensors."""

import numpy as np
import pytest

from gradwatch import Kind, Site
from tests.cli.support import PATHS, STEPS, arrays, invoke, make_run, strict


def norms(truth, path):
    def of(tensor):
        return float(np.linalg.norm(tensor[np.isfinite(tensor)]))

    return np.array([of(truth[Site(Kind.GRADIENT, path)][step]) for step in STEPS])


def test_compare_has_last_values_and_the_largest_ratio(tmp_path):
    first, second = arrays(), arrays(seed=1, scale=2.0)
    make_run(tmp_path / "a", first)
    make_run(tmp_path / "b", second)
    facts = strict(invoke("compare", tmp_path / "a", tmp_path / "b", "--json").stdout)
    assert facts["runs"] == ["a", "b"]
    assert [entry["path"] for entry in facts["sites"]] == list(PATHS)
    for entry in facts["sites"]:
        a, b = norms(first, entry["path"]), norms(second, entry["path"])
        ratios = np.maximum(a, b) / np.minimum(a, b)
        assert entry["last"] == pytest.approx([a[-1], b[-1]], rel=1e-12)
        assert entry["common_difference"] == pytest.approx(b[-1] - a[-1], rel=1e-9)
        assert entry["largest_ratio"] == pytest.approx(ratios.max(), rel=1e-12)
        assert entry["largest_ratio_at"] == 1 + int(ratios.argmax())
        assert entry["compared"] == len(STEPS)


def test_runs_of_different_length_are_compared_by_their_share_of_training(tmp_path):
    long = {Site(Kind.LOSS, "loss"): {step: np.array([step / 40.0]) for step in range(1, 41)}}
    short = {Site(Kind.LOSS, "loss"): {step: np.array([step / 10.0]) for step in range(1, 11)}}
    make_run(tmp_path / "long", long)
    make_run(tmp_path / "short", short)
    arguments = ("compare", tmp_path / "long", tmp_path / "short", "--kind", "loss", "--json")
    (by_share,) = strict(invoke(*arguments, "--align", "fraction").stdout)["sites"]
    assert by_share["compared"] == 10
    # The last tenth: steps 37 to 40 of the one, step 10 of the other.
    assert by_share["common"] == pytest.approx([np.mean([37, 38, 39, 40]) / 40, 1.0])
    assert by_share["common_at"] == pytest.approx(0.9)
    (by_step,) = strict(invoke(*arguments).stdout)["sites"]
    assert (by_step["common"], by_step["common_at"]) == ([0.25, 1.0], 10)
    for entry in (by_share, by_step):
        assert entry["last"] == [1.0, 1.0]


def test_last_values_are_those_of_each_runs_own_last_step(tmp_path):
    def run(name, steps):
        make_run(
            tmp_path / name,
            {
                Site(kind, path): {step: np.array([float(step)]) for step in steps}
                for kind, path in ((Kind.LOSS, "loss"), (Kind.GRADIENT, "x"), (Kind.GRADIENT, "y"))
            },
        )
        return tmp_path / name

    # More steps than columns, so that columns have several.
    long, short = run("long", range(1, 3001)), run("short", range(1, 2002))
    facts = strict(invoke("compare", long, short, "--json").stdout)
    for entry in (facts["sites"][0], facts["numbers"][0]["sites"][0]):
        assert entry["last"] == [3000.0, 2001.0]
        assert entry["common_at"] <= 2001
    assert facts["model"]["last"] == pytest.approx([3000 * 2**0.5, 2001 * 2**0.5])
    text = invoke("compare", long, short).stdout
    assert "Differences are in steps 2,000 to 2,003, the last that both runs have." in text
    even = run("even", range(2, 41, 2))
    text = invoke("compare", even, run("first", range(1, 16))).stdout
    assert "Differences are at step 14, the last that both runs have." in text
    assert "Differences are" not in invoke("compare", even, even).stdout


def test_a_run_does_not_differ_from_itself(run):
    facts = strict(invoke("compare", run, run, "--json", "--fail-on", "1.0000001").stdout)
    assert {entry["largest_ratio"] for entry in facts["sites"]} == {1.0}
    assert {entry["common_difference"] for entry in facts["sites"]} == {0.0}


def test_differences_beyond_a_limit_are_code_1(run, other, tmp_path):
    invoke("compare", run, other, "--fail-on", "1.5", code=1)
    for name, seed in (("a", 0), ("b", 1)):
        make_run(tmp_path / name, arrays(seed=seed))
    invoke("compare", tmp_path / "a", tmp_path / "b", "--fail-on", "1e30", code=0)


def test_nan_where_the_other_run_has_a_number_is_beyond_any_limit(tmp_path):
    bad = arrays()
    bad[Site(Kind.GRADIENT, PATHS[0])][7][1] = float("nan")
    make_run(tmp_path / "a", arrays())
    make_run(tmp_path / "b", bad)
    arguments = "compare", tmp_path / "a", tmp_path / "b", "--json", "--fail-on", "1e30"
    facts = strict(invoke(*arguments, code=1).stdout)
    by_path = {entry["path"]: entry for entry in facts["sites"]}
    assert by_path[PATHS[0]]["largest_ratio"] == "inf"
    assert by_path[PATHS[0]]["largest_ratio_at"] == 7
    assert by_path[PATHS[1]]["largest_ratio"] == 1.0
    assert facts["model"]["largest_ratio_at"] == 7


def test_compare_prints_both_names_and_says_what_only_one_has(tmp_path):
    make_run(tmp_path / "a", arrays())
    make_run(tmp_path / "b", arrays(paths=PATHS[:2]))
    result = invoke("compare", tmp_path / "a", tmp_path / "b")
    assert "last of a" in result.stdout
    assert "only in a: 2 sites" in result.stderr


def test_runs_without_a_layer_in_common_have_losses_and_totals(tmp_path):
    first, second = arrays(paths=("x",)), arrays(seed=1, paths=("y",), scale=2.0)
    make_run(tmp_path / "a", first)
    make_run(tmp_path / "b", second)
    result = invoke("compare", tmp_path / "a", tmp_path / "b")
    assert "No gradient of a has a counterpart" in result.stderr
    facts = strict(invoke("compare", tmp_path / "a", tmp_path / "b", "--json").stdout)
    assert facts["sites"] == []
    totals = [norms(first, "x"), norms(second, "y")]
    assert facts["model"]["last"] == pytest.approx([own[-1] for own in totals], rel=1e-12)
    (losses,) = facts["numbers"]
    assert losses["sites"][0]["last"] == [1 / 40, 2 / 40]


def test_layers_that_keras_has_renumbered_are_compared(tmp_path):
    names = (
        "net_1/conv_3/kernel",
        "net_1/conv_3/bias",
        "net_1/dense_7/kernel",
        "net_1/dense_7/bias",
    )
    make_run(tmp_path / "a", arrays())
    second = make_run(tmp_path / "b", arrays(seed=1, paths=names))
    result = invoke("compare", tmp_path / "a", tmp_path / "b")
    assert "4 sites matched by path without the model's name and counters" in result.stderr
    facts = strict(invoke("compare", tmp_path / "a", tmp_path / "b", "--json").stdout)
    for entry, name in zip(facts["sites"], names, strict=True):
        assert entry["matched_by"] == "name"
        assert entry["counterparts"] == [name]
        assert entry["last"][1] == pytest.approx(norms(second, name)[-1], rel=1e-12)


def test_several_runs_are_compared_with_the_first(tmp_path):
    truths = [make_run(tmp_path / str(i), arrays(seed=i, scale=1.0 + i)) for i in range(3)]
    result = invoke("compare", tmp_path)
    assert "gradient l2: 1, 2 compared with 0" in result.stdout
    facts = strict(invoke("compare", *(tmp_path / str(i) for i in range(3)), "--json").stdout)
    for entry in facts["sites"]:
        own = [norms(truth, entry["path"]) for truth in truths]
        assert entry["last"] == pytest.approx([each[-1] for each in own], rel=1e-12)
        ratios = [np.maximum(own[0], o) / np.minimum(own[0], o) for o in own[1:]]
        assert entry["largest_ratio"] == pytest.approx(np.max(ratios), rel=1e-12)
        assert entry["largest_ratio_of"] == str(1 + int(np.argmax(np.max(ratios, axis=1))))
    assert "two runs or more" in invoke("compare", tmp_path / "0", code=2).stderr


def test_a_loss_that_became_nan_is_nan_and_differs(tmp_path):
    site = Site(Kind.LOSS, "loss")
    make_run(tmp_path / "a", {site: {step: np.array([1.0]) for step in STEPS}})
    bad = {step: np.array([1.0 if step < 30 else np.nan]) for step in STEPS}
    make_run(tmp_path / "b", {site: bad})
    arguments = ("compare", tmp_path / "a", tmp_path / "b", "--kind", "loss")
    (entry,) = strict(invoke(*arguments, "--json").stdout)["sites"]
    assert entry["last"] == [1.0, "nan"]
    assert entry["largest_ratio_at"] == 30
    assert "nan" in invoke(*arguments).stdout.lower()
    invoke(*arguments, "--fail-on", "1e9", code=1)
