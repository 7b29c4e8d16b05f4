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
        assert entry["last_difference"] == pytest.approx(b[-1] - a[-1], rel=1e-9)
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
    assert by_share["last"] == pytest.approx([np.mean([37, 38, 39, 40]) / 40, 1.0])
    (by_step,) = strict(invoke(*arguments).stdout)["sites"]
    assert by_step["last"] == [0.25, 1.0]


def test_a_run_does_not_differ_from_itself(run):
    facts = strict(invoke("compare", run, run, "--json", "--fail-on", "1.0000001").stdout)
    assert {entry["largest_ratio"] for entry in facts["sites"]} == {1.0}
    assert {entry["last_difference"] for entry in facts["sites"]} == {0.0}


def test_differences_beyond_a_limit_are_code_1(run, other):
    invoke("compare", run, other, "--fail-on", "1.5", code=1)
    invoke("compare", run, other, "--fail-on", "1e30", "--sites", "conv", code=0)


def test_compare_prints_both_names_and_says_what_only_one_has(tmp_path):
    make_run(tmp_path / "a", arrays())
    make_run(tmp_path / "b", arrays(paths=PATHS[:2]))
    result = invoke("compare", tmp_path / "a", tmp_path / "b")
    assert "last of a" in result.stdout
    assert "only in a: 2 sites" in result.stderr


def test_runs_without_anything_in_common_are_a_mistake(tmp_path):
    make_run(tmp_path / "a", arrays(paths=("x",)))
    make_run(tmp_path / "b", arrays(paths=("y",)))
    assert "in common" in invoke("compare", tmp_path / "a", tmp_path / "b", code=2).stderr
