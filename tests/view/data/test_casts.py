"""What casts would lose of recorded tensors, in tables and reports, against casts of NumPy."""

import ml_dtypes
import numpy as np
import pytest

import gradwatch
from gradwatch.store.writer import StoreWriter
from gradwatch.view.data import cast_columns, cast_rows
from tests.cli.support import invoke, strict

DTYPES = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}
PATHS = ("net/a/kernel", "net/b/kernel", "net/zeros/kernel")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Three steps; the last histograms are of step 2."""
    rng = np.random.default_rng(0)
    wide = [rng.normal(size=3000) * 10.0 ** rng.uniform(-10, 6, 3000) for _ in range(3)]
    steps = [
        dict(zip(PATHS, (each, np.linspace(0.5, 1, 9) * i, np.zeros(3)), strict=True))
        for i, each in enumerate(wide, 1)
    ]
    place = tmp_path_factory.mktemp("casts") / "a"
    watch = [
        gradwatch.gradients(every=1),
        gradwatch.gradients(every=2, histogram=True),
        gradwatch.weights(every=1),
    ]
    with gradwatch.Monitor(place, watch=watch, sinks=[gradwatch.Store()]) as monitor:
        for step, arrays in enumerate(steps, 1):
            monitor.record(gradients=arrays, variables=arrays, step=step)
    return place, steps[1]


def check(rows, arrays):
    assert [(row["kind"], row["path"], row["step"]) for row in rows] == [
        ("gradient", path, 2) for path in PATHS[:2]
    ]
    for row in rows:
        assert [each["format"] for each in row["casts"]] == list(DTYPES)
        array = arrays[row["path"]]
        for each in row["casts"]:
            dtype = np.dtype(DTYPES[each["format"]])
            with np.errstate(over="ignore"):
                cast = array.astype(dtype).astype(float)
            normal = float(ml_dtypes.finfo(dtype).smallest_normal)
            outcomes = {
                "zero": cast == 0,
                "subnormal": (cast != 0) & (abs(cast) < normal),
                "overflow": ~np.isfinite(cast),
            }
            for outcome, is_so in outcomes.items():
                low, high = each[outcome]
                assert low <= is_so.mean() <= high < low + 0.02


def test_show_and_reports_have_what_casts_of_the_last_histograms_would_lose(recorded):
    place, arrays = recorded
    check(strict(invoke("show", place, "--casts", "--json").stdout)["sites"], arrays)
    check(strict(invoke("report", place, "--format", "json").stdout)["casts"], arrays)
    text = invoke("show", place, "--casts").stdout
    rows = cast_rows(gradwatch.open(place), gradwatch.open(place).sites(), 0)
    columns = cast_columns(rows)
    assert "float16 to 0" in columns
    assert "float8_e5m2 too large" in columns
    # Nothing becomes 0 in bfloat16, so that is no column.
    assert not any(header.startswith("bfloat16") for header in columns)
    page = invoke("report", place, "--format", "md").stdout
    for header, cells in columns.items():
        assert header in text
        for cell in cells:
            assert cell in text
        assert cells[0] in page
    # Of the other tensor nothing is lost.
    assert "(1 of 2 tensors)" in page


def test_sites_are_chosen_and_where_nothing_is_lost_it_says_so(recorded):
    place, _ = recorded
    facts = strict(invoke("show", place, "--casts", "--sites", "b", "--json").stdout)
    assert [row["path"] for row in facts["sites"]] == ["net/b/kernel"]
    text = invoke("show", place, "--casts", "--sites", "b").stdout
    assert "float16 to 0" not in text
    assert text.splitlines()[-1].startswith("No cast")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--statistic", "l2"), "Choose one of them"),
        (("--kind", "weight"), "Record some with histogram=True"),
    ],
)
def test_mistakes_are_explained(recorded, options, words):
    assert words in invoke("show", recorded[0], "--casts", *options, code=2).stderr


def test_micro_batches_count_together_unless_the_whole_step_was_recorded(tmp_path):
    parts = [np.array([1e-9, 1.0]), np.array([1e-9, 1e-9, 1e-9, 1.0])]
    sites = [gradwatch.Site(gradwatch.Kind.GRADIENT, f"{name}/kernel") for name in "ab"]
    writer = StoreWriter(tmp_path / "a")
    for number, (own, arrays) in enumerate([(sites, parts[:1] * 2), (sites, parts[1:] * 2)]):
        writer.write(reading(own, arrays, number))
    writer.write(reading(sites[1:], parts[:1], None))
    writer.close()
    run = gradwatch.open(tmp_path / "a")
    shares = {row["path"]: row["casts"][0]["zero"] for row in cast_rows(run, run.sites(), 0)}
    assert shares == {"a/kernel": [4 / 6, 4 / 6], "b/kernel": [0.5, 0.5]}


def reading(sites, arrays, micro_batch):
    histograms = [gradwatch.Histogram.of(array) for array in arrays]
    summary = gradwatch.Summary.unpack(np.stack([each.summary.pack() for each in histograms]))
    cells = {i: each.cells for i, each in enumerate(histograms)}
    return gradwatch.Reading(2, 1, 1e9, sites, summary, cells, micro_batch=micro_batch)
