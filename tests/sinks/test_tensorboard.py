from __future__ import annotations

import shutil
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gradwatch.core import STATISTICS, Histogram, Kind, Reading, Site, Summary
from gradwatch.sinks import RunInfo, TensorBoard
from gradwatch.sinks.histogram_buckets import MAX_BUCKETS, buckets
from gradwatch.sinks.scalar_tags import RATIO_MEANING

KERNEL, BIAS, OTHER = "net/dense/kernel", "net/dense/bias", "net/head/kernel"


FOUR = ("l2", "linf", "mean", "std")


def write(run, readings, statistics=FOUR):
    sink = TensorBoard(statistics)
    sink.open(run)
    for reading in readings:
        sink.write(reading)
    sink.close()


def arrays_of(step):
    random = np.random.default_rng(step)
    return {
        Site(kind, path): random.normal(scale=scale, size=size).astype(np.float32)
        for kind, scale in ((Kind.WEIGHT, 1.0), (Kind.GRADIENT, 1e-3), (Kind.UPDATE, 1e-5))
        for path, size in ((KERNEL, 300), (BIAS, 7), (OTHER, 40))
    }


REFERENCE = {
    "l2": np.linalg.norm,
    "linf": lambda x: np.abs(x).max(),
    "mean": np.mean,
    "std": np.std,
}


def expected_scalars(arrays):
    """Every tag and value that a reading of these arrays has, computed from the arrays."""
    groups = defaultdict(list)
    for site, array in arrays.items():
        x = array.astype(np.float64)
        kind = str(site.kind)
        layer = site.path.rsplit("/", 1)[0]
        groups["per_tensor_" + kind + "_{}/" + site.path].append(x)
        groups["per_layer_" + kind + "_{}/" + layer].append(x)
        groups["model/" + kind + "_{}"].append(x)
    tags = {
        pattern.format(name): statistic(np.concatenate(parts))
        for pattern, parts in groups.items()
        for name, statistic in REFERENCE.items()
    }
    for path in (KERNEL, BIAS, OTHER):
        update, weight = arrays[Site(Kind.UPDATE, path)], arrays[Site(Kind.WEIGHT, path)]
        tags[f"per_tensor_update_ratio/{path}"] = np.linalg.norm(
            update.astype(np.float64)
        ) / np.linalg.norm(weight.astype(np.float64))
    return tags


def test_tensorboard_shows_every_statistic_of_every_site_layer_and_model(
    run, make_reading, tensorboard
):
    steps = (1, 50, 1000)
    write(run, [make_reading(s, arrays_of(s), epoch=s // 10, histograms=True) for s in steps])
    series = tensorboard(run.directory)["series"]
    scalars = {tag: points for tag, (plugin, _, points) in series.items() if plugin == "scalars"}
    wanted = {
        step: {**expected_scalars(arrays_of(step)), "model/epoch": step // 10} for step in steps
    }
    assert set(scalars) == set(wanted[1])
    for tag, points in scalars.items():
        assert [step for step, _ in points] == list(steps)
        np.testing.assert_allclose(
            [float(value) for _, value in points],
            [wanted[step][tag] for step in steps],
            rtol=2e-6,
            atol=1e-12,
            err_msg=tag,
        )
    histograms = {tag for tag, (plugin, _, _) in series.items() if plugin == "histograms"}
    assert histograms == {
        f"per_tensor_{kind}/{path}"
        for kind in ("weight", "gradient", "update")
        for path in (KERNEL, BIAS, OTHER)
    }


def five_layers(step=1):
    """What the default of `fit` records of five layers, and of one without variables."""
    layers = [f"net/{name}" for name in ("conv", "conv_1", "dense", "dense_1", "dense_2")]
    random = np.random.default_rng(step)
    arrays = {
        Site(kind, f"{layer}/{part}"): random.normal(size=5)
        for kind in (Kind.WEIGHT, Kind.GRADIENT, Kind.UPDATE)
        for layer in layers
        for part in ("kernel", "bias")
    }
    arrays |= {
        Site(kind, layer): (random.normal(size=8) > 0.5).astype(float)
        for kind in (Kind.OUTPUT, Kind.DEAD_UNIT)
        for layer in [*layers, "net/flatten"]
    }
    arrays |= {Site(kind, str(kind)): random.normal(size=4) for kind in (Kind.INPUT, Kind.TARGET)}
    scalars = {"learning_rate": 0.1, "batch_size": 16.0}
    arrays |= {Site(Kind.SCALAR, name): number for name, number in scalars.items()}
    arrays |= {Site(Kind.METRIC, "accuracy"): 0.5, Site(Kind.EPOCH_METRIC, "val_loss"): 2.0}
    return {**arrays, Site(Kind.LOSS, "loss"): 1.5}, layers


def test_by_default_there_are_few_tags_and_the_loss_and_the_model_stand_first(
    run, make_reading, tensorboard
):
    arrays, layers = five_layers()
    write(run, [make_reading(1, arrays, histograms=True), make_reading(2, arrays)], statistics=None)
    answer = tensorboard(run.directory)
    # TensorBoard shows its sections in this order.
    assert sorted(answer["series"], key=lambda tag: tag.partition("/")[0])[0] == "loss"
    values = answer["events"][-1]["values"]
    shown = {tag: value for tag, (value, _) in values.items()}
    sections = list(dict.fromkeys(tag.partition("/")[0] for tag in sorted(shown)))
    assert sections == [
        "loss",
        "metrics",
        "model",
        "per_layer_gradient_l2",
        "per_layer_output_l2",
        "per_layer_update_ratio",
        "per_layer_weight_l2",
    ]
    assert [tag for tag in sorted(shown) if tag.startswith("model/")] == [
        "model/dead_unit_mean",
        "model/gradient_l2",
        "model/output_l2",
        "model/update_ratio",
        "model/weight_l2",
    ]
    assert shown["metrics/learning_rate"] == pytest.approx(0.1)
    assert (shown["metrics/accuracy"], shown["metrics/epoch_val_loss"]) == (0.5, 2.0)
    assert len(shown) == 4 + 5 + 3 * 5 + 6
    for layer in layers:
        both = {
            kind: np.linalg.norm(
                np.concatenate(
                    [arrays[Site(kind, f"{layer}/{part}")] for part in ("kernel", "bias")]
                )
            )
            for kind in (Kind.GRADIENT, Kind.WEIGHT, Kind.UPDATE)
        }
        assert shown[f"per_layer_gradient_l2/{layer}"] == pytest.approx(both[Kind.GRADIENT])
        ratio = both[Kind.UPDATE] / both[Kind.WEIGHT]
        assert shown[f"per_layer_update_ratio/{layer}"] == pytest.approx(ratio)


def test_all_statistics_of_everything_are_written_if_asked_for(run, make_reading, tensorboard):
    arrays, layers = five_layers()
    write(run, [make_reading(1, arrays)], statistics="all")
    tags = set(tensorboard(run.directory)["series"])
    for name in STATISTICS:
        assert f"per_tensor_gradient_{name}/{layers[0]}/kernel" in tags
        assert f"per_layer_gradient_{name}/{layers[0]}" in tags
        assert f"model/weight_{name}" in tags
        assert f"per_tensor_dead_unit_{name}/{layers[0]}" in tags
    assert f"per_tensor_update_ratio/{layers[0]}/bias" in tags
    assert "per_tensor_output_zero_share/net/flatten" in tags
    # The tensor of a layer that has one is not there a second time as the layer's.
    assert not any(tag.startswith("per_layer_output") for tag in tags)


@pytest.mark.parametrize("statistics", [None, "all"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_number_is_not_finite_if_an_element_is_not(
    run, make_reading, tensorboard, statistics, bad
):
    arrays = {Site(kind, "net/a/kernel"): [1.0, bad] for kind in (Kind.WEIGHT, Kind.GRADIENT)}
    arrays |= {Site(kind, "net/b/kernel"): [1.0, 2.0] for kind in (Kind.WEIGHT, Kind.GRADIENT)}
    arrays[Site(Kind.UPDATE, "net/a/kernel")] = [np.nan, np.nan]
    write(run, [make_reading(1, arrays)], statistics=statistics)
    values = tensorboard(run.directory)["events"][-1]["values"]
    for tag in ("per_layer_gradient_l2/net/a", "model/gradient_l2", "model/weight_l2"):
        np.testing.assert_equal(float(values[tag][0]), bad)
    ratio = "per_tensor_update_ratio/net/a/kernel" if statistics else "per_layer_update_ratio/net/a"
    assert np.isnan(values[ratio][0])
    assert values["per_layer_gradient_l2/net/b"][0] == pytest.approx(np.sqrt(5))


def test_readings_of_the_same_sites_are_shown_as_truly_as_others(run, tensorboard):
    # From the second on they are encoded in one go; some are without elements at times.
    kernel, bias = Site(Kind.GRADIENT, "net/a/kernel"), Site(Kind.GRADIENT, "net/a/bias")
    sites = (kernel, bias, Site(Kind.WEIGHT, "net/a/kernel"))
    rng = np.random.default_rng(0)
    arrays = {s: [rng.normal(size=5), rng.normal(size=3), rng.normal(size=5)] for s in range(1, 9)}
    for step in (3, 4, 7):
        arrays[step][1] = np.zeros(0)
    arrays[5][0] = np.array([1e200, np.nan])

    def reading(step):
        rows = np.stack([Summary.of(x).pack() for x in arrays[step]])
        return Reading(step, 1, 0.0, sites, Summary.unpack(rows))

    write(run, [reading(step) for step in arrays])
    events = {e["step"]: e["values"] for e in tensorboard(run.directory)["events"]}
    with np.errstate(all="ignore"):
        for step, tensors in arrays.items():
            wanted = {
                "per_tensor_gradient_l2/net/a/kernel": np.sqrt(np.sum(tensors[0] ** 2)),
                "per_tensor_gradient_linf/net/a/kernel": np.max(np.abs(tensors[0])),
                "per_tensor_gradient_l2/net/a/bias": np.linalg.norm(tensors[1]),
                "per_tensor_weight_mean/net/a/kernel": np.mean(tensors[2]),
                "per_tensor_weight_std/net/a/kernel": np.std(tensors[2]),
                "per_layer_gradient_l2/net/a": np.sqrt(sum(np.sum(x**2) for x in tensors[:2])),
                "model/gradient_mean": np.mean(np.concatenate(tensors[:2])),
                "model/weight_l2": np.linalg.norm(tensors[2]),
            }
            shown = {tag: events[step][tag][0] for tag in wanted}
            np.testing.assert_allclose(
                [shown[tag] for tag in wanted],
                np.float32(list(wanted.values())),
                rtol=1e-6,
                err_msg=f"step {step}",
            )
            assert ("per_tensor_gradient_mean/net/a/bias" in events[step]) == (len(tensors[1]) > 0)
            assert len(events[step]) == 29 + (step == 5) - 3 * (len(tensors[1]) == 0)


def test_the_time_of_an_event_is_the_time_of_the_step(run, make_reading, tensorboard):
    write(run, [make_reading(3, arrays_of(1), time=1234.5)])
    event = tensorboard(run.directory)["events"][-1]
    assert (event["step"], event["time"]) == (3, 1234.5)


def test_a_histogram_has_the_exact_bounds_sums_and_counts(run, make_reading, tensorboard):
    x = np.random.default_rng(0).standard_cauchy(5000)
    write(run, [make_reading(1, {Site(Kind.GRADIENT, "a/b"): x}, histograms=True)])
    answer = tensorboard(run.directory)
    histo = answer["events"][-1]["values"]["per_tensor_gradient/a/b"][0]
    assert (histo["min"], histo["max"], histo["num"]) == (x.min(), x.max(), 5000)
    np.testing.assert_allclose(histo["sum"], x.sum(), rtol=1e-12)
    np.testing.assert_allclose(histo["sum_squares"], np.square(x).sum(), rtol=1e-12)
    assert len(histo["limits"]) == len(histo["counts"]) == MAX_BUCKETS
    edges = np.array([x.min(), *histo["limits"]])
    np.testing.assert_array_equal(np.histogram(x, edges)[0], histo["counts"])
    shown = answer["series"]["per_tensor_gradient/a/b"][2][0][1]
    assert shown[:, 2].sum() == 5000
    assert (shown[1:, 0] == shown[:-1, 1]).all()


def check_buckets(x):
    """The law of every histogram; returns what TensorBoard makes of it."""
    x = np.asarray(x, np.float64)
    ok = x[np.isfinite(x)]
    with np.errstate(over="ignore"):
        histogram = Histogram.of(x)
    ((limits, counts),) = buckets([histogram])
    assert len(limits) == len(counts) <= MAX_BUCKETS
    assert (np.diff(limits) > 0).all()
    assert counts.sum() == ok.size
    assert (counts == np.round(counts)).all()
    assert limits[-1] == ok.max()
    assert limits[0] >= ok.min()
    # In each bucket are the elements that lie in it: cumulative counts agree at
    # every limit, up to the elements that are equal to it.
    below = np.cumsum(counts)
    tolerance = 1e-6 * np.abs(limits) + 3e-45
    for limit, count, near in zip(limits, below, tolerance, strict=True):
        with np.errstate(over="ignore"):
            assert (ok < limit - near).sum() <= count <= (ok <= limit + near).sum()
    return limits, counts


CASES = {
    "all zero": np.zeros(9),
    "constant": np.full(9, 0.3),
    "constant at a bin's edge": np.full(9, 1.0),
    "negative constant": np.full(5, -4.0),
    "one element": np.array([-7.25]),
    "with NaN and Inf": np.array([np.nan, 1.0, np.inf, -2.0, -np.inf, 0.0]),
    "two values": np.array([0.5, 0.5, 1.0]),
    "edge values": np.array([-2.0, -1.0, 0.0, 1.0, 2.0]),
    "zero and tiny": np.array([0.0, 5e-324]),
    "tiny, zero and tiny": np.array([-5e-324, 0.0, 5e-324]),
    "zero and underflow": np.array([0.0, 1e-30, 1e-30]),
    "zeros and positives": np.array([0.0, 0.0, 0.0, 3.0, 5.0]),
    "negatives and zeros": np.array([-3.0, -5.0, 0.0, 0.0]),
    "tiny": np.array([1e-300, 2e-300, -1e-310]),
    "huge": np.array([1e300, -1e300, 1e308, -1.7e308]),
    "huge at the border": np.array([-(2.0**64), 2.0**64, 0.0]),
    "every magnitude": np.concatenate([np.logspace(-30, 30, 5000), -np.logspace(-30, 30, 5000)]),
    "normal": np.random.default_rng(0).normal(size=10_000),
    "mostly zero": np.where(np.arange(5000) % 50, 0.0, np.random.default_rng(0).normal(size=5000)),
}


@pytest.mark.parametrize("name", CASES)
def test_buckets_ascend_and_hold_every_finite_element(name):
    check_buckets(CASES[name])


@settings(deadline=None)
@given(hnp.arrays(np.float64, st.integers(1, 60), elements=st.floats(allow_nan=True)))
def test_buckets_of_anything_ascend_and_hold_every_finite_element(x):
    if np.isfinite(x).any():
        check_buckets(x)


@pytest.mark.parametrize("name", [n for n in CASES if "huge" not in n and "tiny" not in n])
def test_tensorboard_keeps_every_element_and_gives_each_bucket_a_width(
    run, make_reading, tensorboard, name
):
    x = CASES[name]
    write(run, [make_reading(1, {Site(Kind.WEIGHT, "a/b"): x}, histograms=True)])
    shown = tensorboard(run.directory)["series"]["per_tensor_weight/a/b"][2][0][1]
    ok = x[np.isfinite(x)]
    assert shown[:, 2].sum() == ok.size
    assert shown[0, 0] == np.float32(ok.min())
    assert shown[-1, 1] == np.float32(ok.max())
    if ok.min() < ok.max():
        assert (shown[:, 1] > shown[:, 0]).all()


def test_few_values_far_apart_are_not_smeared_over_the_gaps():
    limits, counts = check_buckets(np.array([0.0] * 90 + [1.0] * 10))
    widths = np.diff(limits, prepend=0.0)
    assert counts[widths > 1e-6].sum() == 0  # all the elements are in two very narrow buckets


def test_joining_buckets_hardly_moves_the_quantiles():
    # The body is a million times narrower than the tail: by widths alone it would be lost.
    random = np.random.default_rng(1)
    tail = 10.0 ** random.uniform(-15, 0, 3000) * random.choice([-1, 1], 3000)
    x = np.concatenate([random.normal(scale=1e-6, size=100_000), tail])
    limits, counts = check_buckets(x)
    edges = np.concatenate([[x.min()], limits])
    for q in (0.05, 0.25, 0.75, 0.95):
        shown = np.interp(q * x.size, np.concatenate([[0], np.cumsum(counts)]), edges)
        np.testing.assert_allclose(shown, np.quantile(x, q), rtol=0.15)


def test_a_tensor_without_finite_elements_has_no_histogram_but_a_nonfinite_count(
    run, make_reading, tensorboard
):
    arrays = {Site(Kind.GRADIENT, "a/b"): np.array([np.nan, np.inf, -np.inf])}
    write(run, [make_reading(1, arrays, histograms=True)])
    values = tensorboard(run.directory)["events"][-1]["values"]
    assert "per_tensor_gradient/a/b" not in values
    assert values["per_tensor_gradient_nonfinite/a/b"][0] == 3
    assert np.isnan(values["per_tensor_gradient_l2/a/b"][0])
    assert np.isnan(values["per_tensor_gradient_mean/a/b"][0])


def test_the_nonfinite_count_is_written_only_when_there_are_any(run, make_reading, tensorboard):
    site = Site(Kind.GRADIENT, "a/b")
    write(run, [make_reading(1, {site: [1.0]}), make_reading(2, {site: [1.0, np.nan, np.inf]})])
    points = tensorboard(run.directory)["series"]["per_tensor_gradient_nonfinite/a/b"][2]
    assert [(step, float(value)) for step, value in points] == [(2, 2.0)]


def test_undefined_statistics_of_an_empty_tensor_are_not_written(run, make_reading, tensorboard):
    write(run, [make_reading(1, {Site(Kind.GRADIENT, "a/b"): []}, histograms=True)])
    values = tensorboard(run.directory)["events"][-1]["values"]
    assert set(values) == {
        "per_tensor_gradient_l2/a/b",
        "per_layer_gradient_l2/a",
        "model/gradient_l2",
        "model/epoch",
    }


def test_the_update_ratio_of_a_zero_variable_is_not_written(run, make_reading, tensorboard):
    arrays = {Site(Kind.WEIGHT, "a/b"): [0.0], Site(Kind.UPDATE, "a/b"): [1.0]}
    write(run, [make_reading(1, arrays)])
    assert not any("ratio" in tag for tag in tensorboard(run.directory)["series"])


def test_an_overflowing_norm_is_shown_as_infinite(run, make_reading, tensorboard):
    write(run, [make_reading(1, {Site(Kind.WEIGHT, "a/b"): [1e200, -1e200, 5.0]})])
    values = tensorboard(run.directory)["events"][-1]["values"]
    assert values["per_tensor_weight_l2/a/b"][0] == np.inf
    assert values["model/weight_linf"][0] == np.inf  # 1e200 is beyond float32


def test_only_the_statistics_that_were_asked_for_are_written(run, make_reading, tensorboard):
    reading = make_reading(1, {Site(Kind.WEIGHT, "a/b"): [1.0, -3.0, 0.0]})
    write(run, [reading], statistics=["zeros", "min"])
    values = tensorboard(run.directory)["events"][-1]["values"]
    assert {tag: value for tag, (value, _) in values.items()} == {
        "per_tensor_weight_zeros/a/b": 1.0,
        "per_tensor_weight_min/a/b": -3.0,
        "per_layer_weight_zeros/a": 1.0,
        "per_layer_weight_min/a": -3.0,
        "model/weight_zeros": 1.0,
        "model/weight_min": -3.0,
        "model/epoch": 1.0,
    }


def test_an_unknown_statistic_is_refused_at_once():
    with pytest.raises(ValueError, match=r"no statistic 'l3'\. Choose from: count"):
        TensorBoard(statistics=("l2", "l3"))


def test_hostile_names_are_read_back(run, make_reading, tensorboard):
    names = ["nul\0", "new\nline", "x" * 4096, "日本/🙂", "[red]", "../..", "a//b", " "]
    arrays = {Site(Kind.GRADIENT, name): [float(i)] for i, name in enumerate(names)}
    arrays[Site(Kind.GRADIENT, "lone\ud800")] = [99.0]
    write(run, [make_reading(1, arrays, histograms=True)], statistics=("max",))
    values = tensorboard(run.directory)["events"][-1]["values"]
    for i, name in enumerate(names):
        assert values[f"per_tensor_gradient_max/{name}"][0] == i
        assert values[f"per_tensor_gradient/{name}"][0]["max"] == i
    assert values["per_tensor_gradient_max/lone\\ud800"][0] == 99.0


def test_the_first_event_of_a_tag_says_what_it_means(tmp_path, make_reading, tensorboard):
    run = RunInfo(tmp_path, meaning={Kind.GRADIENT: "Unscaled, before clipping."})
    first = {Site(Kind.GRADIENT, "a/b"): [1.0], Site(Kind.WEIGHT, "a/b"): [1.0]}
    later = {**first, Site(Kind.GRADIENT, "a/c"): [1.0], Site(Kind.UPDATE, "a/b"): [1.0]}
    write(
        run,
        [make_reading(1, first, histograms=True), make_reading(2, later, histograms=True)],
        statistics=["l2"],
    )
    answer = tensorboard(tmp_path)
    described = [
        {tag: words for tag, (_, words) in event["values"].items() if words}
        for event in answer["events"]
        if event["what"] == "summary"
    ]
    unscaled = "Unscaled, before clipping."
    assert described == [
        dict.fromkeys(
            [
                "per_tensor_gradient_l2/a/b",
                "per_layer_gradient_l2/a",
                "model/gradient_l2",
                "per_tensor_gradient/a/b",
            ],
            unscaled,
        ),
        {
            "per_tensor_gradient_l2/a/c": unscaled,
            "per_tensor_gradient/a/c": unscaled,
            "per_tensor_update_ratio/a/b": RATIO_MEANING,
        },
    ]
    assert answer["series"]["per_tensor_gradient/a/b"][:2] == ("histograms", unscaled)


@pytest.mark.parametrize("loader", ["series", "series_of_many_files"])
def test_a_resumed_run_replaces_the_later_steps_of_the_earlier_attempt(
    tmp_path, make_reading, tensorboard, loader
):
    site = Site(Kind.WEIGHT, "a/b")
    write(RunInfo(tmp_path), [make_reading(s, {site: [1.0]}) for s in (100, 200, 300, 400)])
    write(RunInfo(tmp_path, 201), [make_reading(s, {site: [2.0]}) for s in (250, 350)])
    write(RunInfo(tmp_path, 301), [make_reading(s, {site: [3.0]}) for s in (301, 302)])
    points = tensorboard(tmp_path)[loader]["per_tensor_weight_l2/a/b"][2]
    assert [(step, float(value)) for step, value in points] == [
        (100, 1.0),
        (200, 1.0),
        (250, 2.0),
        (301, 3.0),
        (302, 3.0),
    ]


def test_a_run_that_is_not_resumed_drops_nothing(tmp_path, make_reading, tensorboard):
    site = Site(Kind.WEIGHT, "a/b")
    for path in "bc":
        site = Site(Kind.WEIGHT, f"a/{path}")
        write(RunInfo(tmp_path), [make_reading(s, {site: [1.0]}) for s in (1, 2)])
    series = tensorboard(tmp_path)["series"]
    assert [len(series[f"per_tensor_weight_l2/a/{path}"][2]) for path in "bc"] == [2, 2]


def test_no_file_is_made_before_there_is_something_to_write(run):
    write(run, [])
    assert list(run.directory.iterdir()) == []


def test_a_sink_can_be_opened_again(tmp_path, make_reading, tensorboard):
    sink = TensorBoard(FOUR)
    for step, first in ((1, 1), (2, 2)):
        sink.open(RunInfo(tmp_path, first))
        sink.write(make_reading(step, {Site(Kind.WEIGHT, "a/b"): [1.0]}))
        sink.close()
    points = tensorboard(tmp_path)["series"]["per_tensor_weight_l2/a/b"][2]
    assert [step for step, _ in points] == [1, 2]


def test_when_the_directory_is_deleted_recording_goes_on_in_a_new_whole_file(
    tmp_path, make_reading, tensorboard
):
    run = RunInfo(tmp_path / "run", first_step=5, meaning={Kind.WEIGHT: "words"})
    site = Site(Kind.WEIGHT, "a/b")
    sink = TensorBoard(FOUR)
    sink.open(run)
    sink.write(make_reading(5, {site: [1.0]}))
    (old,) = run.directory.iterdir()
    shutil.rmtree(run.directory)
    sink.write(make_reading(6, {site: [2.0]}))
    sink.write(make_reading(7, {site: [3.0]}))
    sink.close()
    (new,) = run.directory.iterdir()
    assert new.name != old.name
    answer = tensorboard(run.directory)
    assert [(e["what"], e["step"]) for e in answer["events"]] == [
        ("file_version", 0),
        ("session_log", 6),
        ("session_log", 6),
        ("summary", 6),
        ("summary", 7),
    ]
    assert answer["series"]["per_tensor_weight_l2/a/b"][1] == "words"


def test_on_a_full_disk_the_file_stays_whole_and_writing_resumes(
    small_disk, make_reading, tensorboard
):
    ballast = small_disk / "ballast"
    arrays = {Site(Kind.GRADIENT, f"layer{i}/k"): np.ones(3) for i in range(40)}
    sink = TensorBoard(FOUR)
    sink.open(RunInfo(small_disk / "run", first_step=2, meaning={Kind.GRADIENT: "words"}))
    small_disk.joinpath("run").mkdir()
    ballast.write_bytes(b"x" * 60_000)
    written = []
    for step in range(2, 30):
        if step == 5:
            ballast.unlink()
        try:
            sink.write(make_reading(step, arrays))
            written.append(step)
        except OSError as fault:
            assert "No space" in str(fault)  # noqa: PT017
    sink.close()
    assert written == list(range(5, written[-1] + 1))
    assert 6 < written[-1] < 29  # it was full at first, then had space, then was full again
    answer = tensorboard(small_disk / "run")
    assert [e["what"] for e in answer["events"][:4]] == [
        "file_version",
        "session_log",
        "session_log",
        "summary",
    ]
    for i in range(40):
        _, description, points = answer["series"][f"per_tensor_gradient_l2/layer{i}/k"]
        assert [step for step, _ in points] == written
        assert description == "words"
