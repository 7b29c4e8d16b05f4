"""What a run says is what was measured, by an independent NumPy truth."""

import time
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gradwatch
from gradwatch.core import STATISTICS, Kind, Site, Summary
from gradwatch.core.reference import count_cells
from gradwatch.read import NotRecordedError
from gradwatch.store.writer import StoreWriter
from tests.statistics_truth import TRUTH
from tests.store.recorded import LAYERS, SITES, Recorder, array, loss_at

KERNEL = Site(Kind.GRADIENT, "net/conv1/kernel")
STEPS = range(1, 41)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Forty steps, some sealed and the last ones still in a journal."""
    place = tmp_path_factory.mktemp("runs") / "a"
    recorder = Recorder(place, rows_a_journal=200)
    recorder.write(range(1, 31)).write(range(31, 33), histograms=True).close()
    writer = Recorder(place, rows_a_journal=10**6, first_step=33).write(range(33, 41))
    yield place
    writer.close()


@pytest.fixture(scope="module")
def run(directory):
    assert list(directory.glob("segments/*.parquet"))
    assert list(directory.glob("journal-*.gwj"))
    with gradwatch.open(directory) as run:
        yield run


@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_series_is_the_statistic_of_the_true_tensors(run, statistic):
    steps, values = run.series("gradient", KERNEL.path, statistic)
    assert_array_equal(steps, STEPS)
    true = [TRUTH[statistic](array(KERNEL, step)) for step in STEPS]
    assert_allclose(values, true, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_the_columns_of_the_sql_table_are_the_statistics_of_the_true_tensors(run, statistic):
    rows = run.sql(
        f"select step, {statistic} from summaries where kind = 'gradient' and path = ? order by 1",
        [KERNEL.path],
    ).fetchall()
    true = [TRUTH[statistic](array(KERNEL, step)) for step in STEPS]
    found = [np.nan if value is None else value for _, value in rows]
    assert [step for step, _ in rows] == list(STEPS)
    assert_allclose(found, true, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("path", ["net/conv1", "net", "model"])
def test_a_total_is_the_statistic_of_the_tensors_laid_side_by_side(run, path):
    layers = [layer for layer in LAYERS if path in ("net", "model", layer)]
    sites = [
        Site(Kind.WEIGHT, f"{layer}/{part}") for layer in layers for part in ("kernel", "bias")
    ]
    steps, values = run.series("weight", path, "l2")
    true = [TRUTH["l2"](np.concatenate([array(s, step) for s in sites])) for step in STEPS]
    assert_array_equal(steps, STEPS)
    assert_allclose(values, true, rtol=1e-6)


def test_a_total_of_a_kind_with_slices_leaves_them_out(tmp_path):
    slices = [Site(Kind.WEIGHT, "lstm/kernel"), Site(Kind.WEIGHT, "lstm/kernel[forget]")]
    Recorder(tmp_path, sites=slices).write([1]).close()
    run = gradwatch.open(tmp_path)
    for path in ("model", "lstm"):
        assert_allclose(run.series("weight", path, "l2")[1], TRUTH["l2"](array(slices[0], 1)))
    assert run.sites("weight", "lstm/kernel") == slices[:1]
    assert run.sites("weight", "lstm/kernel[forget]") == slices[1:]


def test_the_update_ratio_is_the_quotient_of_two_norms(run):
    steps, values = run.series("update", "net/dense/bias", "update_ratio")
    norm = TRUTH["l2"]
    sites = [Site(kind, "net/dense/bias") for kind in (Kind.UPDATE, Kind.WEIGHT)]
    with np.errstate(invalid="ignore"):
        true = [norm(array(sites[0], s)) / norm(array(sites[1], s)) for s in STEPS]
    assert_array_equal(steps, STEPS)
    assert_allclose(values, true, rtol=1e-6)


def test_losses_are_told_with_their_nan(run):
    steps, values = run.losses()["loss"]
    assert_array_equal(steps, STEPS)
    assert_allclose(values, [loss_at(step) for step in STEPS], rtol=1e-7)
    assert np.isnan(run.sql("select value from losses where step = 13").fetchall()[0][0])


def test_a_histogram_has_the_cells_of_the_true_tensor(run):
    found = run.histogram("gradient", KERNEL.path, step=31)
    assert_array_equal(found.cells, count_cells(array(KERNEL, 31)))
    assert_array_equal(found.summary.pack(), Summary.of(array(KERNEL, 31)).pack())
    steps, series = run.histograms("gradient", KERNEL.path)
    assert steps.tolist() == [31, 32]
    assert_array_equal(series[1].cells, count_cells(array(KERNEL, 32)))


def test_a_histogram_of_a_layer_is_that_of_its_tensors(run):
    found = run.histogram("weight", "net/conv2", step=32)
    tensors = [array(Site(Kind.WEIGHT, f"net/conv2/{part}"), 32) for part in ("kernel", "bias")]
    assert_array_equal(found.cells, count_cells(np.concatenate(tensors)))


def test_a_histogram_that_was_not_taken_is_refused_with_the_nearest_steps(run):
    with pytest.raises(NotRecordedError, match=r"was taken at step 5\. Nearest: 31, 32"):
        run.histogram("gradient", KERNEL.path, step=5)


def test_a_reading_comes_back_as_it_was_written(run):
    (reading,) = run.at(32)
    assert list(reading.sites) == [*SITES, Site(Kind.LOSS, "loss")]
    assert (reading.step, reading.epoch, reading.group, reading.micro_batch) == (32, 4, "", None)
    for i, site in enumerate(SITES):
        assert_array_equal(reading.summary[i].pack(), Summary.of(array(site, 32)).pack())
        assert_array_equal(reading.cells[i], count_cells(array(site, 32)))
    assert run.at(10**6) == []


def test_sites_are_in_network_order_and_selected_by_the_usual_patterns(run):
    gradients = [site for site in SITES if site.kind is Kind.GRADIENT]
    assert run.sites() == [*SITES, Site(Kind.LOSS, "loss")]
    assert run.sites("gradient") == gradients
    assert run.sites("gradient", "conv*/kernel") == [gradients[0], gradients[2]]
    assert run.sites("gradient", "!bias") == gradients[::2]
    assert run.sites("gradient", lambda info: info.part == "bias") == gradients[1::2]
    assert run.sites("gradient", "nowhere") == []


def test_a_run_lasts_from_its_beginning_not_from_its_first_record(tmp_path, make_reading):
    writer = StoreWriter(tmp_path)
    compiled = time.time() + 100.0
    for step in (1, 2):
        writer.write(make_reading(step, {KERNEL: [1.0]}, time=compiled + step))
    writer.close()
    with gradwatch.open(tmp_path) as run:
        assert run.duration == pytest.approx(compiled + 2 - run.started)
        assert run.duration >= 102.0


def test_steps_epochs_and_length_are_told(run):
    assert_array_equal(run.steps(), STEPS)
    assert run.last_step == 40
    assert [(e.number, e.first_step, e.last_step) for e in run.epochs] == [
        (1, 1, 10), (2, 11, 20), (3, 21, 30), (4, 31, 40),
    ]  # fmt: skip
    assert run.duration == 39.0
    assert run.rows == 40 * (len(SITES) + 1)
    assert not run.damage
    assert "live, 19 sites, 40 steps to 40" in repr(run)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda run: run.series("gradient", "net/conv1/kernal"), "Closest: net/conv1/kernel"),
        (lambda run: run.series("gradient", "conv"), "net/conv1"),
        (lambda run: run.series("output", "net/conv1"), "Recorded: weight, gradient, update, loss"),
        (lambda run: run.series("gradeint", "net"), "No kind 'gradeint' exists"),
        (lambda run: run.series("gradient", KERNEL.path, "l22"), "Did you mean 'l2'"),
        (lambda run: run.series("gradient", KERNEL.path, "update_ratio"), "no statistic"),
        (lambda run: run.series("gradient", KERNEL.path, rank=3), "no rank 3 .*Recorded: 0"),
        (lambda run: run.pictures("net/conv1/kernel"), "no picture .*Nothing was drawn"),
        (lambda run: run.heatmap("gradient", pattern="nowhere"), "selects no gradient"),
        (lambda run: run.heatmap("gradient", max_cells=0), "max_cells must be >= 1"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is_near(run, ask, words):
    with pytest.raises((NotRecordedError, ValueError), match=words):
        ask(run)


def test_pictures_come_back_as_png_files(tmp_path):
    from gradwatch.core import Reading
    from gradwatch.watches.probes import png

    image = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)
    writer = StoreWriter(tmp_path)
    site = Site(Kind.WEIGHT, "net/conv/kernel")
    for step in (3, 9):
        row = Summary.unpack(Summary.of(np.ones(2)).pack()[None])
        writer.write(Reading(step, 1, 0.0, [site], row, pictures={site: image + np.uint8(step)}))
    for state in ("in the journal", "sealed"):
        steps, pictures = gradwatch.open(tmp_path).pictures("net/conv/kernel")
        assert steps.tolist() == [3, 9], state
        assert gradwatch.open(tmp_path).pictures("conv/kernel")[1] == pictures
        assert pictures == [png.encode(image + np.uint8(step)) for step in (3, 9)]
        from tests.store.recorded import settle

        writer.close()
        settle()


def test_groups_that_the_user_has_named_can_be_asked_for(tmp_path):
    chosen = [i for i, site in enumerate(SITES) if "conv" in site.path]
    Recorder(tmp_path).write([1, 2], members={"convolutions": chosen}).close()
    _, values = gradwatch.open(tmp_path).series("gradient", "convolutions", "l2")
    gradients = [SITES[i] for i in chosen if SITES[i].kind is Kind.GRADIENT]
    true = [TRUTH["l2"](np.concatenate([array(s, step) for s in gradients])) for step in (1, 2)]
    assert_allclose(values, true, rtol=1e-6)


def test_micro_batches_are_merged_where_the_step_as_a_whole_was_not_recorded(tmp_path):
    recorder = Recorder(tmp_path, rows_a_journal=50)
    for step in (1, 2, 3):
        for part in (0, 1):
            recorder.write([step], micro_batch=part, histograms=True)
    recorder.write([3]).close()
    run = gradwatch.open(tmp_path)
    parts = {step: [array(KERNEL, step, part=1 + p) for p in (0, 1)] for step in (1, 2, 3)}
    norm = TRUTH["l2"]
    whole = [norm(np.concatenate(parts[1])), norm(np.concatenate(parts[2])), norm(array(KERNEL, 3))]
    assert_allclose(run.series("gradient", KERNEL.path)[1], whole, rtol=1e-6)
    one = run.series("gradient", KERNEL.path, micro_batch=1)[1]
    assert_allclose(one, [norm(parts[s][1]) for s in (1, 2, 3)], rtol=1e-6)
    heatmap = run.heatmap("gradient", "l2")
    assert_allclose(heatmap.values[0], whole, rtol=1e-6)
    assert_array_equal(heatmap.steps[0], [1, 1, 1])
    cells = run.histogram("gradient", KERNEL.path, 2).cells
    assert_array_equal(cells, count_cells(np.concatenate(parts[2])))
    assert [reading.micro_batch for reading in run.at(3)] == [None, 0, 1]


def test_ranks_are_kept_apart(tmp_path):
    for rank in (0, 1, 2):
        Recorder(tmp_path, rank=rank).write(range(1, 6)).close()
    run = gradwatch.open(tmp_path)
    assert run.ranks == (0, 1, 2)
    for rank in (None, 0, 2):
        true = [TRUTH["l2"](array(KERNEL, s, rank=rank or 0)) for s in range(1, 6)]
        assert_allclose(run.series("gradient", KERNEL.path, rank=rank)[1], true, rtol=1e-6)
        assert_allclose(run.heatmap("gradient", rank=rank).values[0], true, rtol=1e-6)
    assert run.sql("select count(distinct rank) from summaries").fetchall() == [(3,)]


def test_the_kind_of_an_update_ratio_needs_weights_that_were_measured_too(tmp_path):
    only = [Site(Kind.UPDATE, "a/kernel")]
    Recorder(tmp_path, sites=only).write([1]).close()
    steps, values = gradwatch.open(tmp_path).series("update", "a/kernel", "update_ratio")
    assert steps.size == values.size == 0


def test_dataframes_say_what_to_install(run, monkeypatch):
    import builtins

    true_import = builtins.__import__
    from importlib import import_module

    def refuse(name, *rest, **more):
        if name.partition(".")[0] in ("pandas", "pyarrow", "polars"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return true_import(name, *rest, **more)

    monkeypatch.setattr("gradwatch.read.query_result.importlib.import_module", refuse)
    assert import_module
    for convert in (run.to_pandas, run.to_arrow, run.to_polars):
        with pytest.raises(ImportError, match=r"pip install 'gradwatch\[dataframes\]'"):
            convert()


@pytest.mark.parametrize("package", ["pandas", "pyarrow", "polars"])
def test_dataframes_hold_all_summaries(run, package):
    pytest.importorskip(package)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame = {"pandas": run.to_pandas, "pyarrow": run.to_arrow, "polars": run.to_polars}[
            package
        ]()
    assert len(frame) == run.rows
    path, step = frame["path"].to_pylist() if package == "pyarrow" else list(frame["path"]), None
    assert step is None
    assert set(path) == {site.path for site in run.sites()}


def test_metrics_are_those_that_were_reported(tmp_path):
    monitor = gradwatch.Monitor(tmp_path, every=2, sinks=[gradwatch.Store()])
    for number in (0.5, 0.25, np.inf):
        monitor.record(gradients={"w": np.ones(2)}, metrics={"accuracy": number})
    monitor.close()
    run = gradwatch.open(tmp_path)
    (name, (steps, values)), = run.metrics().items()  # fmt: skip
    assert (name, steps.tolist(), values.tolist()) == ("accuracy", [1, 2, 3], [0.5, 0.25, np.inf])
    assert run.epoch_metrics() == {}
    assert run.sql("select step, value from metrics order by step").fetchall() == [
        (1, 0.5), (2, 0.25), (3, np.inf),
    ]  # fmt: skip
    assert run.measured_steps.tolist() == [1, 2]
