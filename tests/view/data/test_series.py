"""A site, a layer or a block over time."""

import numpy as np
import pytest

import gradwatch
from gradwatch.core import STATISTICS, Kind, Reading, Site, Summary
from gradwatch.core.reference import summarize
from gradwatch.diagnosis.finding import Finding, Severity
from gradwatch.store.writer import StoreWriter
from gradwatch.view.data import RunView, Window, numbers, series
from gradwatch.view.data.selection import selected
from tests.store.recorded import Recorder, array, loss_at
from tests.view.data.made import SITES, columns, doubles, members, recorder, truth

NAMES = [name for name, statistic in STATISTICS.items() if not statistic.is_count]
PATHS = [
    "net/stem/kernel",
    "net/block2/lstm/kernel[forget]",
    "net/block1/conv",
    "net/block1",
    "model",
]


@pytest.mark.parametrize("path", PATHS)
def test_every_step_is_what_the_reader_says_unless_an_element_is_not_finite(shown, path):
    answer = series(shown, "update", path, Window(1000))
    is_finite = doubles(answer["nonfinite"]) == 0
    assert is_finite.any()
    assert not is_finite.all()
    for name in NAMES:
        steps, values = shown.run.series("update", path, name)
        found = doubles(answer["statistics"][name])
        assert answer["first"] == answer["last"] == steps.tolist()
        np.testing.assert_allclose(found[is_finite], values[is_finite], rtol=1e-9)
        assert not np.isfinite(found[~is_finite]).any()
    # The ratio also depends on the weights.
    steps, values = shown.run.series("update", path, "update_ratio")
    found = doubles(answer["statistics"]["update_ratio"])
    found = found[np.isin(answer["first"], steps)]
    known = np.isfinite(found) & (found != 0)
    assert known.any()
    np.testing.assert_allclose(found[known], values[known], rtol=1e-9)


@pytest.mark.parametrize("path", PATHS)
def test_wide_columns_are_merged_and_not_picked(shown, path):
    answer = series(shown, "gradient", path, Window(9))
    whole = "net" if path == "model" else path
    for name in NAMES:
        true = [truth(Kind.GRADIENT, whole, name, range(a, b + 1)) for a, b in columns(answer)]
        np.testing.assert_allclose(doubles(answer["statistics"][name]), true, rtol=1e-9)
    for name, is_so in (("zeros", lambda a: a == 0), ("nonfinite", lambda a: ~np.isfinite(a))):
        true = []
        for first, last in columns(answer):
            sites = members(Kind.GRADIENT, whole)
            steps = range(first, last + 1)
            everything = np.concatenate([array(site, s) for site in sites for s in steps])
            true.append(is_so(everything).mean())
        np.testing.assert_allclose(doubles(answer[name]), true, rtol=1e-12)


def test_it_says_how_many_tensors_are_merged(shown):
    block = series(shown, "gradient", "net/block2", Window(9))
    assert (block["sites"], block["elements"]) == (1, 24)  # its slices are in no total
    assert series(shown, "gradient", "net/block1", Window(9))["sites"] == 3
    assert series(shown, "gradient", "model", Window(9))["elements"] == 24 * 7


def test_the_steps_of_histograms_are_those_that_the_reader_has(tmp_path):
    writer = recorder(tmp_path / "a")
    for step in range(1, 13):
        writer.write([step], histograms=step % 4 == 0)
    writer.close()
    shown = RunView(gradwatch.open(tmp_path / "a"))
    for path in ("net/stem/kernel", "net/block1", "model"):
        answer = series(shown, "gradient", path, Window(9))
        assert answer["histogram_steps"] == [4, 8, 12]
        assert shown.run.histograms("gradient", path)[0].tolist() == [4, 8, 12]


def test_a_step_at_which_only_some_sites_had_a_histogram_has_none_of_the_block(tmp_path):
    writer = recorder(tmp_path / "a")
    everything = writer.sites
    writer.write([1], histograms=True)
    writer.sites = [site for site in everything if "conv" in site.path]
    writer.write([2], histograms=True, group="one")
    writer.sites = [site for site in everything if "norm" in site.path]
    writer.write([2], group="other")
    writer.close()
    shown = RunView(gradwatch.open(tmp_path / "a"))
    for path, steps in {"net/block1/conv": [1, 2], "net/block1": [1]}.items():
        answer = series(shown, "gradient", path, Window(9))
        assert answer["histogram_steps"] == steps
        assert shown.run.histograms("gradient", path)[0].tolist() == steps


def test_findings_are_those_that_name_it_or_its_layer(shown):
    def finding(layer, *paths):
        sites = tuple(Site(Kind.GRADIENT, path) for path in paths)
        return Finding("dead-units", Severity.ERROR, "", 1, 2, layer=layer, sites=sites)

    findings = [
        finding(""),
        finding("net/block1/conv"),
        finding("", "net/block1/conv/bias"),
        finding("net/head", "net/head/bias"),
    ]
    where = {
        "net/block1/conv/kernel": [1],
        "net/block1": [1, 2],
        "net/head": [3],
        "model": [1, 2, 3],
    }
    for path, places in where.items():
        assert series(shown, "gradient", path, Window(9), findings)["findings"] == places


def test_numbers_are_the_true_losses_where_they_were_not_finite_too(shown):
    [loss] = numbers(shown, Window(1000))["numbers"]
    assert (loss["kind"], loss["path"]) == ("loss", "loss")
    assert loss["first"] == list(range(1, 61))
    np.testing.assert_array_equal(doubles(loss["values"]), [loss_at(s) for s in range(1, 61)])


def test_numbers_of_wide_columns_are_means(shown):
    [loss] = numbers(shown, Window(8))["numbers"]
    true = [np.mean([float(loss_at(s)) for s in range(a, b + 1)]) for a, b in columns(loss)]
    np.testing.assert_allclose(doubles(loss["values"]), true, rtol=1e-12)
    assert np.isnan(true).sum() == 1


def test_numbers_that_are_measured_seldom_have_their_own_columns(tmp_path):
    writer = StoreWriter(tmp_path / "a")
    for step in range(1, 21):
        sites = [Site(Kind.LOSS, "often")] + [Site(Kind.LOSS, "seldom")] * (step == 13)
        rows = np.array([summarize(np.array(1.0 / step))] * len(sites))
        writer.write(Reading(step, 1, 1.7e9 + step, sites, Summary.unpack(rows)))
    writer.close()
    shown = RunView(gradwatch.open(tmp_path / "a"))
    found = {each["path"]: each for each in numbers(shown, Window(3))["numbers"]}
    assert (found["seldom"]["first"], found["seldom"]["last"]) == ([13], [13])
    assert doubles(found["seldom"]["values"]).tolist() == [1.0 / 13]
    assert found["often"]["last"][-1] == 20


def test_a_site_has_points_at_its_own_steps_only(tmp_path):
    """Others of its kind may be measured more often."""
    writer = Recorder(tmp_path / "a", sites=list(SITES))
    for step in range(1, 13):
        writer.sites = [site for site in SITES if step % 4 == 0 or "block1" in site.path]
        writer.write([step])
    writer.close()
    shown = RunView(gradwatch.open(tmp_path / "a"))
    answer = series(shown, "gradient", "net/head/kernel", Window(100))
    assert answer["first"] == answer["last"] == [4, 8, 12]
    true = shown.run.series("gradient", "net/head/kernel", "l2")[1]
    assert doubles(answer["statistics"]["l2"]).tolist() == true.tolist()
    grown = series(shown, "gradient", "net/head/kernel", Window(100, since=8, width=1))
    assert (grown["first"], grown["complete"]) == ([8, 12], False)


KERNELS = [
    "net/stem/kernel",
    "net/block1/conv/kernel",
    "net/block2/lstm/kernel",
    "net/block2/lstm/kernel[forget]",
    "net/block2/lstm/kernel[input]",
    "net/head/kernel",
]
OTHERS = ["net/block1/conv/bias", "net/block1/norm/gamma", "net/head/bias"]


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("KERN", KERNELS),
        ("conv/kernel", KERNELS[1:2]),
        ("kernel block1", KERNELS[1:2]),
        ("block*kernel", KERNELS[1:5]),
        ("bl?ck2/lstm", KERNELS[2:5]),
        ("[forget]", KERNELS[3:4]),
        ("/kernel/", [path for path in KERNELS if path.endswith("kernel")]),
        ("!kernel", OTHERS),
        ("block1 !kernel", OTHERS[:2]),
        ("!", sorted([*KERNELS, *OTHERS])),
        (" ", sorted([*KERNELS, *OTHERS])),
        ("nothing", []),
    ],
)
def test_a_search_finds_sites_by_words_that_their_paths_contain(shown, text, paths):
    infos = [info for info in shown.run.infos if info.kind == "gradient"]
    assert sorted(info.path for info in selected(infos, text)) == sorted(paths)
