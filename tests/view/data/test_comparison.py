"""Runs side by side."""

import numpy as np
import pytest

import gradwatch
from gradwatch.core import Kind, Site
from gradwatch.read import NotRecordedError
from gradwatch.view.data import RunView, compare, compare_series, shown_series
from tests.statistics_truth import shown_truth
from tests.store.recorded import array
from tests.view.data.made import SITES, doubles, recorder, truth


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """A long run, a short one and one that lacks block1 and has another block."""
    place = tmp_path_factory.mktemp("runs")
    recorder(place / "a").write(range(1, 41)).close()
    recorder(place / "b", attempt=0, rank=1).write(range(1, 21)).close()
    odd = recorder(place / "c")
    odd.sites = [s for s in odd.sites if "block1" not in s.path]
    odd.write(range(1, 21)).close()
    return [RunView(gradwatch.open(place / name), f"id-{name}") for name in "abc"]


def values_of(answer):
    shape = len(answer["runs"]), len(answer["paths"]), doubles(answer["position"]).size
    return doubles(answer["values"], *shape)


def test_columns_are_the_same_steps_and_rows_are_layers_and_sites(several):
    answer = compare(several[:2], "gradient", "l2", "step", "", 10)
    assert [run["id"] for run in answer["runs"]] == ["id-a", "id-b"]
    assert dict(zip(answer["paths"], answer["merged"], strict=True)) == {
        "net/stem/kernel": False,
        "net/block1/conv": True,
        "net/block1/conv/kernel": False,
        "net/block1/conv/bias": False,
        "net/block1/norm/gamma": False,
        "net/block2/lstm/kernel": False,
        "net/block2/lstm/kernel[forget]": False,
        "net/block2/lstm/kernel[input]": False,
        "net/head": True,
        "net/head/kernel": False,
        "net/head/bias": False,
    }
    assert answer["only"] == [0, 0]
    width = 6
    position = doubles(answer["position"])
    assert position.tolist() == [width * i for i in range(7)]
    assert (answer["width"], answer["ends"]) == (width, [41, 21])
    for run, (last, rank) in enumerate([(40, 0), (20, 1)]):
        for row, path in enumerate(answer["paths"]):
            for column, start in enumerate(position.astype(int)):
                steps = [s for s in range(start, start + width) if 1 <= s <= last]
                true = truth(Kind.GRADIENT, path, "l2", steps, rank=rank) if steps else np.nan
                np.testing.assert_allclose(values_of(answer)[run, row, column], true, rtol=1e-9)


def test_columns_are_the_same_share_of_training(several):
    answer = compare(several[:2], "gradient", "mean", "fraction", "head", 5)
    assert answer["paths"] == ["net/head", "net/head/kernel", "net/head/bias"]
    assert doubles(answer["position"]).tolist() == pytest.approx([0, 0.2, 0.4, 0.6, 0.8])
    for run, (each, rank) in enumerate([(8, 0), (4, 1)]):
        for column in range(5):
            steps = range(1 + column * each, 1 + (column + 1) * each)
            true = truth(Kind.GRADIENT, "net/head", "mean", steps, rank=rank)
            np.testing.assert_allclose(values_of(answer)[run, 0, column], true, rtol=1e-9)


def test_what_only_some_have_is_counted(several):
    answer = compare(several, "gradient", "l2", "step", "", 10)
    assert answer["only"] == [3, 3, 0]
    assert not any("block1" in path for path in answer["paths"])
    nothing = compare([several[0], several[2]], "gradient", "l2", "step", "block1", 10)
    assert nothing["paths"] == []
    assert nothing["only"] == [3, 0]


def test_the_model_as_a_whole_is_compared_whatever_layers_match(several):
    answer = compare([several[0], several[2]], "gradient", "l2", "step", "block1", 1000)
    totals = doubles(answer["model"], 2, -1)
    for run, shown in enumerate((several[0], several[2])):
        members = shown.run.members("gradient", "model")
        steps, values = shown_series(shown.run, Kind.GRADIENT, [members], "l2", None)[0]
        own = np.isin(doubles(answer["position"]), steps)
        np.testing.assert_allclose(totals[run, own], values, rtol=1e-9)
        assert np.isnan(totals[run, ~own]).all()
    overlaid = compare_series([several[0], several[2]], "gradient", "model", "l2", "step", 1000)
    np.testing.assert_allclose(doubles(overlaid["runs"][1]["values"]), values, rtol=1e-9)


def test_renumbered_layers_are_compared_and_it_is_said_how_they_were_matched(tmp_path):
    recorder(tmp_path / "a").write(range(1, 5)).close()
    other = recorder(tmp_path / "b", attempt=1)
    other.sites = [
        Site(s.kind, s.path.replace("net/", "net_1/").replace("head", "head_4")) for s in SITES
    ]
    other.write(range(1, 5)).close()
    views = [RunView(gradwatch.open(tmp_path / name), name) for name in "ab"]
    answer = compare(views, "gradient", "l2", "step", "", 10)
    assert set(answer["matched"]) == {"name"}
    assert answer["only"] == [0, 0]
    (theirs,) = answer["counterparts"]
    row = answer["paths"].index("net/head/kernel")
    assert theirs[row] == "net_1/head_4/kernel"
    assert theirs[answer["paths"].index("net/head")] == "net_1/head_4"
    true = [
        shown_truth("l2", own)
        for own in (array(Site(Kind.GRADIENT, theirs[row]), step, 1) for step in range(1, 5))
    ]
    np.testing.assert_allclose(values_of(answer)[1, row], true, rtol=1e-9)
    overlaid = compare_series(views, "gradient", "net/head/kernel", "l2", "step", 10)
    np.testing.assert_allclose(doubles(overlaid["runs"][1]["values"]), true, rtol=1e-9)


@pytest.mark.parametrize(("most", "paths"), [(10, 6), (5, 5), (1, 1)])
def test_with_too_many_rows_layers_and_then_blocks_are_compared(several, most, paths):
    answer = compare(several[:2], "gradient", "l1", "step", "", 2, rows=most)
    if most == 10:
        names = ["stem", "block1/conv", "block1/norm", "block2/lstm", "head"]
        assert answer["paths"] == [f"net/{name}" for name in names]
    assert len(answer["paths"]) <= paths
    assert all(
        merged != (path.endswith(("kernel", "gamma")))
        for path, merged in zip(answer["paths"], answer["merged"], strict=True)
    )
    position = doubles(answer["position"]).astype(int)
    width = int(position[1] - position[0]) if position.size > 1 else 64
    for row, path in enumerate(answer["paths"]):
        steps = [s for s in range(position[0], position[0] + width) if 1 <= s <= 40]
        true = truth(Kind.GRADIENT, path, "l1", steps)
        np.testing.assert_allclose(values_of(answer)[0, row, 0], true, rtol=1e-9)


def test_layers_of_one_tensor_need_no_row_beside_it(several):
    sites = [site.path for site in several[0].run.sites("gradient")]
    layers = ["net/block1/conv", "net/head"]
    answer = compare(several[:2], "gradient", "l1", "step", "", 2, rows=len(sites) + len(layers))
    assert sorted(answer["paths"]) == sorted([*sites, *layers])
    assert sum(answer["merged"]) == len(layers)


def test_series_of_each_run_have_their_own_positions(several):
    answer = compare_series(several, "gradient", "net/block1", "l2", "step", 100)
    assert [run["id"] for run in answer["runs"]] == ["id-a", "id-b"]
    for run, shown in zip(answer["runs"], several, strict=False):
        members = shown.run.members("gradient", "net/block1")
        steps, values = shown_series(shown.run, Kind.GRADIENT, [members], "l2", None)[0]
        assert doubles(run["position"]).tolist() == steps.tolist()
        np.testing.assert_allclose(doubles(run["values"]), values, rtol=1e-9)
    shares = compare_series(several, "gradient", "net/head", "l2", "fraction", 100)["runs"]
    assert doubles(shares[1]["position"]).tolist() == pytest.approx([i / 20 for i in range(20)])
    with pytest.raises(NotRecordedError, match="No gradient of 'net/block9'"):
        compare_series(several, "gradient", "net/block9", "l2", "step", 100)
