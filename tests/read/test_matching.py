"""Layers of different runs that are the same network's."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gradwatch
from gradwatch.core import Kind, Site, SiteInfo
from gradwatch.read.layer_alignment import align
from gradwatch.read.layer_names import named_layers

MLP = {"dense": (8, 16), "dense_1": (16, 16), "dense_2": (16, 1)}
DEEPER = {"dense": (8, 16), "dense_1": (16, 16), "dense_2": (16, 16), "dense_3": (16, 1)}


def layers(shapes, classes=None):
    """Layers with a kernel of these shapes, of the class Dense unless another is given."""
    infos = []
    for path, shape in shapes.items():
        for part, sizes in (("kernel", shape), ("bias", shape[-1:])) if shape else ():
            site = Site(Kind.GRADIENT, f"{path}/{part}")
            infos.append(SiteInfo(site, shape=sizes, dtype="float32", part=part))
        infos.append(SiteInfo(Site(Kind.OUTPUT, path), shape=(), dtype="", part="output"))
    known = dict.fromkeys(shapes, "Dense") if classes is None else classes
    return named_layers(infos, known)


def aligned(first, other, classes=None, other_classes=None):
    pairs = align(layers(first, classes), layers(other, classes or other_classes))
    return {path: theirs for path, (theirs, _) in pairs.items()}


def how(first, other, **options):
    return [str(by) for _, by in align(layers(first, **options), layers(other, **options)).values()]


def renamed(shapes, *names):
    return dict(zip(names, shapes.values(), strict=True))


SEQUENTIAL = renamed(MLP, *(f"sequential/{name}" for name in MLP))


@pytest.mark.parametrize(
    "names",
    [
        ("sequential_1/dense_3", "sequential_1/dense_4", "sequential_1/dense_5"),
        ("mine/dense_3", "mine/dense_4", "mine/dense_5"),
        ("dense_9", "dense_10", "dense_11"),
        # The numbers of one run are those of other layers in the other.
        ("sequential/dense_1", "sequential/dense_2", "sequential/dense_3"),
    ],
)
def test_a_second_model_of_a_process_has_the_layers_of_the_first(names):
    other = renamed(MLP, *names)
    assert aligned(SEQUENTIAL, other) == dict(zip(SEQUENTIAL, names, strict=True))
    assert how(SEQUENTIAL, other) == ["name"] * 3
    # The same without facts about the model, as in a loop.
    assert aligned(SEQUENTIAL, other, {}, {}) == dict(zip(SEQUENTIAL, names, strict=True))


def test_equal_paths_are_matched_whatever_their_shapes():
    wider = {path: tuple(2 * size for size in shape) for path, shape in MLP.items()}
    assert aligned(MLP, wider) == {path: path for path in MLP}
    assert how(MLP, wider) == ["path"] * 3


@pytest.mark.parametrize("offset", [0, 4])
def test_in_a_deeper_network_the_last_layer_is_still_the_last(offset):
    names = [f"dense_{i + offset}" if i + offset else "dense" for i in range(4)]
    deeper = renamed(DEEPER, *names)
    expected = {"dense": names[0], "dense_1": names[1], "dense_2": names[3]}
    assert aligned(MLP, deeper) == expected
    assert aligned(deeper, MLP) == {theirs: ours for ours, theirs in expected.items()}


def test_in_a_deeper_and_wider_network_first_and_last_layers_are_the_same():
    wide = {"dense_3": (8, 32), "dense_4": (32, 32), "dense_5": (32, 32), "dense_6": (32, 1)}
    found = aligned(MLP, wide)
    assert found["dense"] == "dense_3"
    assert found["dense_2"] == "dense_6"


def test_positions_in_torch_containers_are_no_names():
    small = {"0": (8, 16), "2": (16, 16), "4": (16, 1)}
    large = {"0": (8, 16), "2": (16, 16), "4": (16, 16), "6": (16, 1)}
    classes = dict.fromkeys([*small, *large], "Linear")
    assert aligned(small, large, classes) == {"0": "0", "2": "2", "4": "6"}


def test_blocks_that_both_have_stay_together_if_one_has_more():
    few = {f"net/layers/{i}/{part}": (4, 4) for i in range(2) for part in ("q", "k")}
    many = {f"net/layers/{i}/{part}": (4, 4) for i in range(5) for part in ("q", "k")}
    assert aligned(few, many) == {path: path for path in few}


def test_names_that_the_user_has_given_outweigh_shape_and_place():
    first = {"net/conv_1": (3, 3), "net/conv_2": (3, 3), "net/head": (9, 1)}
    other = {"net/conv_2": (3, 3), "net/conv_3": (3, 3), "net/head": (5, 1)}
    classes = dict.fromkeys([*first, *other], "Conv2D")
    found = aligned(first, other, classes)
    assert found["net/conv_2"] == "net/conv_2"
    assert found["net/head"] == "net/head"
    assert found.get("net/conv_1") != "net/conv_2"
    # In any order, and under another model's name.
    swapped = {"net_1/head": (5, 1), "net_1/conv_1": (3, 3)}
    assert aligned(first, swapped, {**classes, **dict.fromkeys(swapped, "Conv2D")}) == {
        "net/head": "net_1/head",
        "net/conv_1": "net_1/conv_1",
    }


def test_a_layer_that_was_renamed_in_the_middle_is_matched_by_its_place_and_shape():
    first = {"net/stem": (8, 16), "net/middle": (16, 16), "net/head": (16, 1)}
    other = {"net/stem": (8, 16), "net/hidden": (16, 16), "net/head": (16, 1)}
    assert aligned(first, other)["net/middle"] == "net/hidden"
    assert sorted(how(first, other)) == ["path", "path", "shape"]
    elsewhere = {"net/stem": (8, 16), "net/head": (16, 1), "net/after": (16, 16)}
    assert "net/middle" not in aligned(first, elsewhere)
    other["net/hidden"] = (16, 99)
    assert "net/middle" not in aligned(first, other)


def test_layers_created_in_another_order_are_matched_by_what_they_are():
    first = {"dense": (8, 16), "dense_1": (16, 1)}
    assert aligned(first, {"dense_1": (8, 16), "dense": (16, 1)}) == {
        "dense": "dense_1",
        "dense_1": "dense",
    }


def test_layers_without_variables_are_matched_by_class():
    classes = {"a/dense": "Dense", "a/re_lu": "ReLU", "b/fc": "Dense", "b/act": "ReLU"}
    first, other = {"a/dense": (3, 4), "a/re_lu": ()}, {"b/fc": (3, 4), "b/act": ()}
    assert aligned(first, other, classes) == {"a/dense": "b/fc", "a/re_lu": "b/act"}


def test_nothing_in_common_matches_nothing():
    assert aligned({"a": (3, 4)}, {"b": (5, 6)}) == {}
    assert aligned({"a": ()}, {"b": ()}, {}, {}) == {}
    assert aligned({"a": (3, 4)}, {}) == {}


def test_long_networks_are_matched_by_the_order_of_names(monkeypatch):
    monkeypatch.setattr("gradwatch.read.layer_alignment._MOST_CELLS", 4)
    other = renamed(MLP, "dense_3", "dense_4", "dense_5")
    assert aligned(MLP, other) == dict(zip(MLP, other, strict=True))


def record(directory, steps):
    """A run of these gradients by path, one dictionary for each step, and of a loss."""
    with gradwatch.Monitor(directory, every=1, sinks=[gradwatch.Store()]) as monitor:
        for step, arrays in enumerate(steps, 1):
            monitor.record(gradients=arrays, loss=1.0 / step)


def arrays(seed, names, transposed=False):
    rng = np.random.default_rng(seed)
    shapes = {f"{name}/w": s for name, s in zip(names, [(3, 4), (4, 4), (4, 2)], strict=True)}
    return [
        {path: rng.normal(size=s[::-1] if transposed else s) for path, s in shapes.items()}
        for _ in range(5)
    ]


@pytest.mark.parametrize(
    ("names", "by"),
    [
        (("net/dense", "net/dense_1", "net/dense_2"), "path"),
        (("net_1/dense_3", "net_1/dense_4", "net_1/dense_5"), "name"),
        (("0", "2", "4"), "shape"),
        (("stem", "middle", "head"), "shape"),
    ],
)
def test_matched_sites_have_the_values_of_each_run(tmp_path, names, by):
    given = [
        arrays(0, ("net/dense", "net/dense_1", "net/dense_2")),
        arrays(1, names, by == "shape"),
    ]
    for name, steps in zip("ab", given, strict=True):
        record(tmp_path / name, steps)
    found = gradwatch.compare(tmp_path / "a", tmp_path / "b")
    assert [str(each) for each in found.matched_by] == [by] * 3
    assert [site.path for site in found.counterparts[1]] == [f"{name}/w" for name in names]
    assert found.only == {"a": [], "b": []}
    for run, steps in enumerate(given):
        for i, site in enumerate(found.counterparts[run]):
            norms = [np.linalg.norm(arrays[site.path]) for arrays in steps]
            assert_allclose(found.values[run, i], norms, rtol=1e-6)
        squares = [sum(np.sum(a**2) for a in arrays.values()) for arrays in steps]
        assert_allclose(found.model[run], np.sqrt(squares), rtol=1e-6)
    (losses,) = found.numbers
    assert_allclose(losses.values[:, 0], [1 / np.arange(1, 6)] * 2, rtol=1e-6)
    assert "3 sites matched by" in found.matching
    assert f"{found!r}".count("\n") == 0


def test_three_runs_are_each_matched_with_the_first(tmp_path):
    names = [("a", "b", "c"), ("net/a", "net/b", "net/c"), ("0", "1", "2")]
    for i, own in enumerate(names):
        record(tmp_path / str(i), arrays(i, own))
    found = gradwatch.compare(tmp_path)
    assert found.names == ("0", "1", "2")
    assert [[site.path for site in own] for own in found.counterparts] == [
        [f"{name}/w" for name in own] for own in names
    ]
    assert [str(each) for each in found.matched_by] == ["shape"] * 3


def test_networks_with_nothing_in_common_have_losses_and_totals(tmp_path):
    record(tmp_path / "a", [{"x/w": np.array([[3.0, 4.0]])}])
    record(tmp_path / "b", [{"y/w": np.array([5.0, 12.0])}])
    found = gradwatch.compare(tmp_path / "a", tmp_path / "b")
    assert found.sites == ()
    assert found.values.shape == (2, 0, 1)
    assert_allclose(found.model, [[5.0], [13.0]])
    assert_allclose(found.numbers[0].values, [[[1.0]], [[1.0]]])
    assert "No gradient of a" in found.matching
    assert found.most_different() == []
    assert "No gradient of a" in found._repr_html_()


def test_groups_are_compared_group_by_group(tmp_path):
    for name, net in (("a", "sequential"), ("b", "sequential_2")):
        with gradwatch.Monitor(tmp_path / name, every=1, sinks=[gradwatch.Store()]) as monitor:
            for group, scale in (("generator", 1.0), ("critic", 2.0)):
                gradients = {f"{net}/dense/kernel": np.full((2, 2), scale)}
                monitor.record(gradients=gradients, loss=scale, group=group)
    found = gradwatch.compare(tmp_path / "a", tmp_path / "b")
    ours, theirs = ([site.path.split("/")[0] for site in own] for own in found.counterparts)
    assert ours == theirs == ["generator", "critic"]
    assert sorted(found.values[0, :, 0]) == [2.0, 4.0]


def test_whatever_names_runs_can_be_compared(tmp_path):
    for i in (1, 2, 10):
        record(tmp_path / f"run{i}", arrays(i, ("a", "b", "c")))
    runs = gradwatch.open(tmp_path)
    first = runs["run1"]
    assert gradwatch.compare(first, str(tmp_path / "run2")).names == ("run1", "run2")
    assert gradwatch.compare([tmp_path / "run2", first]).names == ("run2", "run1")
    assert gradwatch.compare(runs).names == ("run1", "run2", "run10")
    assert gradwatch.compare(str(tmp_path / "run*")).names == ("run1", "run2", "run10")
    # Runs that were given open stay open.
    assert first.series("gradient", "a/w")[0].tolist() == [1, 2, 3, 4, 5]
    with pytest.raises(TypeError, match=r"compare\(\) takes runs.*Received: 3 \(of type int\)"):
        gradwatch.compare(first, 3)
    with pytest.raises(FileNotFoundError, match="There is no directory"):
        gradwatch.compare(first, tmp_path / "absent")
    with pytest.raises(FileNotFoundError, match="matches"):
        gradwatch.compare(first, f"{tmp_path}/absent*")
    with pytest.raises(FileNotFoundError, match="kind='weight'"):
        gradwatch.compare(first, "weight")
