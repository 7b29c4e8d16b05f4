"""What notebooks display: true values, every name as text, nothing from elsewhere."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import gradwatch
from gradwatch import Kind, Reading, Site, Summary
from gradwatch.diagnosis import all_rules
from gradwatch.util import compact
from gradwatch.view.data.cell_grid import CellGrid, step_grid
from gradwatch.view.data.colour_scale import LEVELS, NOT_FINITE, scale_for
from gradwatch.view.data.layer_grid import MAX_ROWS, layer_grid
from gradwatch.view.notebook import svg
from tests.cli.support import arrays, make_run
from tests.view.data.made_metrics import metric_run

ALLOWED = {
    "b", "circle", "div", "path", "rect", "span", "svg", "table", "tbody", "td", "text", "th",
    "details", "summary", "thead", "title", "tr",
}  # fmt: skip
ATTRIBUTES = {
    "aria-label", "cx", "cy", "d", "fill", "font-family", "font-size", "height", "pointer-events",
    "r", "role", "shape-rendering", "stroke", "stroke-width", "style", "text-anchor", "viewbox",
    "width", "x", "xmlns", "y",
}  # fmt: skip


class Checker(HTMLParser):
    """Takes HTML apart, and refuses what a display must not have."""

    def __init__(self, markup):
        super().__init__()
        self.texts, self.titles, self.fills, self._open = [], [], [], []
        self.feed(markup)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        assert tag in ALLOWED, tag
        for name, value in attributes:
            assert name in ATTRIBUTES, name
            assert "url(" not in (value or "")
        if tag not in ("path", "rect", "circle") or not self.get_starttag_text().endswith("/>"):
            self._open.append(tag)
        self.fills += [value for name, value in attributes if name == "fill"]

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        (self.titles if self._open[-1:] == ["title"] else self.texts).append(data)


def displays(run, other):
    return {
        "run": run,
        "heatmap": run.heatmap("gradient", "l2"),
        "mean": run.heatmap("weight", "mean"),
        "ratio": run.heatmap("update", "update_ratio"),
        "loss": run.heatmap("loss", "value"),
        "comparison": gradwatch.compare(run, other),
        "by fraction": gradwatch.compare(run, other, kind="weight", align="fraction"),
        "diagnosis": gradwatch.diagnose(run),
        "readings": run.at(7),
        "reading": run.at(7)[0],
        "no readings": run.at(10**6),
    }


def test_every_display_is_self_contained_and_small(run, other):
    for name, shown in displays(run, other).items():
        markup = shown._repr_html_()
        Checker(markup)
        assert len(markup) < 60_000, name


def test_hostile_names_are_text(hostile):
    for shown in displays(hostile, hostile).values():
        page = Checker(shown._repr_html_())
        said = "".join(page.texts + page.titles)
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", said)
    titles = Checker(hostile.heatmap("gradient")._repr_html_()).titles
    assert any(t.startswith("net/<script>alert(1)</script>/kernel: last") for t in titles)
    assert any(r"\x1b[31mred\x1b[0m" in t for t in titles)


def test_a_run_shows_its_facts_loss_and_findings(run):
    page = Checker(run._repr_html_())
    said = " ".join(page.texts)
    assert "shown" in said
    assert "finished" in said
    assert "40 steps to 40" in said
    assert f"{compact(1 / 40)} at step 40" in said
    assert "Inf in step 9, first in weight net/dense/bias. (at step 9, gone since)" in said
    assert NOT_FINITE in page.fills
    assert "NaN or Inf" in said


def test_rows_of_a_heatmap_tell_the_readers_values(run):
    found = run.heatmap("gradient", "l2")
    titles = Checker(found._repr_html_()).titles
    assert len(titles) == len(found.sites)
    for title, site, values in zip(titles, found.sites, found.shown, strict=True):
        finite = values[np.isfinite(values)]
        assert title.startswith(
            f"{site.path.removeprefix('net/')}: last {compact(values[-1])}, "
            f"from {compact(finite.min())} to {compact(finite.max())}"
        )
    assert titles[0].endswith("NaN or Inf in 1 column")


def test_a_tensor_that_ends_in_nan_is_not_told_as_a_number(tmp_path):
    site = Site(Kind.GRADIENT, "net/a/kernel")
    make_run(tmp_path / "a", {site: {1: np.ones(2), 2: np.full(2, np.nan)}})
    with gradwatch.open(tmp_path / "a") as run:
        (title,) = Checker(run.heatmap("gradient", "l2")._repr_html_()).titles
    assert title == "a/kernel: last nan, from 1.41 to 1.41, NaN or Inf in 1 column"


def test_the_rows_of_a_run_are_its_layers_merged(run, truth):
    folded = layer_grid(run, 60, 0)
    assert folded.labels == ["conv", "dense"]
    for i, layer in enumerate(folded.labels):
        for column, step in enumerate(range(1, 41)):
            own = [truth[Site(Kind.GRADIENT, f"net/{layer}/{p}")][step] for p in ("kernel", "bias")]
            elements = np.concatenate(own)
            norm = np.linalg.norm(elements)
            assert folded.values[i, column] == pytest.approx(norm, rel=1e-12, nan_ok=True)
    assert np.argwhere(folded.nonfinite).tolist() == [[0, 6]]


@pytest.mark.parametrize("blocks", [10, 60, 1000])
def test_a_network_of_many_layers_is_folded_into_rows_that_one_can_look_at(tmp_path, blocks):
    names = tuple(f"net/b{i // 4}/l{i % 4}/kernel" for i in range(blocks))
    rng = np.random.default_rng(0)
    truth = {Site(Kind.GRADIENT, n): {1: rng.normal(size=2), 2: rng.normal(size=2)} for n in names}
    make_run(tmp_path / "a", truth)
    with gradwatch.open(tmp_path / "a") as run:
        folded = layer_grid(run, 60, 0)
        Checker(run._repr_html_())
    assert len(folded.labels) <= MAX_ROWS
    assert folded.labels[0] == {10: "b0/l0", 60: "b0", 1000: "b0 to b6"}[blocks]
    # Nothing is left out: all rows together are the whole network.
    for column, step in enumerate((1, 2)):
        whole = np.linalg.norm(np.concatenate([series[step] for series in truth.values()]))
        assert np.linalg.norm(folded.values[:, column]) == pytest.approx(whole, rel=1e-12)


def test_colours_stand_for_the_right_values():
    values = np.array([[1e-6, 1e-3, 1.0, 0.0, np.nan]])
    scale = scale_for(values, "log")
    assert scale.positions(values).tolist()[0][:4] == [0.0, 0.5, 1.0, -1.0]
    marked = np.array([[False, False, False, False, True]])
    grid = CellGrid(["a"], values, marked, np.arange(6.0), ("1", "5"), "x", scale)
    drawn = svg.heatmap(grid)
    width = svg.WIDTH / 5
    left = float(re.search(r'<rect x="([\d.]+)" y="0"', drawn).group(1))
    colours = scale.colours()
    for column, colour in ((0, colours[0]), (2, colours[LEVELS - 1]), (4, NOT_FINITE)):
        [path] = re.findall(rf'<path fill="{colour}" d="M([\d.]+) 0h', drawn)
        assert float(path) == pytest.approx(left + column * width, abs=0.06)


def test_values_are_shown_until_the_next_one_and_columns_are_as_long_as_their_steps():
    nan = np.nan
    values = np.array([[1.0, nan, 3.0, nan], [nan, 2.0, nan, nan], [1.0, 1.0, 1.0, 1.0]])
    first = np.array([10, 20, 40, 80])
    marked = np.array([[0, 0, 5, 0], [0, 0, 0, 0], [0, 0, 0, 1]])
    grid = step_grid(["a", "b", "c"], values, marked, (first, first), "x", scale_for(values, "log"))
    assert grid.edges.tolist() == [9.5, 19.5, 39.5, 79.5, 80.5]
    # The first row is measured every 30 steps at most, the second once.
    np.testing.assert_array_equal(grid.values[:2], [[1, 1, 3, nan], [nan, 2, nan, nan]])
    assert np.argwhere(grid.nonfinite).tolist() == [[0, 2], [2, 3]]
    drawn = svg.heatmap(grid)
    left = float(re.search(r'<rect x="([\d.]+)" y="0"', drawn).group(1))
    [begin, width] = re.findall(rf'<path fill="{NOT_FINITE}" d="M([\d.]+) 0h([\d.]+)', drawn)[0]
    assert float(begin) == pytest.approx(left + svg.WIDTH * 30 / 71, abs=0.06)
    assert float(width) == pytest.approx(svg.WIDTH * 40 / 71, abs=0.06)


def test_shares_are_lightest_at_0():
    for values in (np.array([[0.0, 0.0]]), np.array([[0.4, 0.8]])):
        scale = scale_for(values, "linear")
        assert (scale.low, scale.is_diverging) == (0.0, False)
        light = [sum(bytes.fromhex(colour[1:])) for colour in scale.colours()]
        assert light == sorted(light, reverse=True)
        assert scale.positions(np.zeros(1)) == [0.0]


def test_a_long_heatmap_keeps_its_largest_values_and_marks(tmp_path):
    site = Site(Kind.GRADIENT, "net/a/kernel")
    truth = {site: {step: np.array([1.0]) for step in range(1, 1001)}}
    truth[site][500] = np.array([1000.0])
    truth[site][700] = np.array([np.inf])
    make_run(tmp_path / "a", truth)
    with gradwatch.open(tmp_path / "a") as run:
        found = run.heatmap("gradient")
        page = Checker(found._repr_html_())
    assert found.values.shape == (1, 1000)
    assert "to 1.00e+03" in page.titles[0]
    assert NOT_FINITE in page.fills
    assert "A cell shows the largest of 9 columns." in " ".join(page.texts)


def test_runs_are_a_table_and_one_that_is_broken_hides_no_other(tmp_path, monkeypatch):
    for name in ("a", "b<i>"):
        make_run(tmp_path / name, arrays())
    runs = gradwatch.open(tmp_path)
    real = type(runs).fresh
    monkeypatch.setattr(
        type(runs), "fresh", lambda self, n: real(self, n) if n == "a" else _fail("no <luck>")
    )
    page = Checker(runs._repr_html_())
    said = " ".join(page.texts)
    assert "2 runs" in said
    assert compact(1 / 40) in said
    assert "cannot be opened: no <luck>" in said


def _fail(words):
    raise OSError(words)


def test_an_empty_run_displays_itself_too(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    with gradwatch.open(tmp_path) as run:
        assert "no step yet" in " ".join(Checker(run._repr_html_()).texts)


def test_a_comparison_names_what_differs_most_and_what_only_one_has(run, other):
    found = gradwatch.compare(run, other)
    page = Checker(found._repr_html_())
    said = " ".join(page.texts)
    worst = found.most_different(5)
    for site, _ in worst:
        assert site.path in said
    assert said.index(worst[0][0].path) < said.index(worst[-1][0].path)
    assert "log2 of other / shown" in said


def test_the_readings_of_a_step_show_their_numbers(run, truth):
    (reading,) = run.at(7)
    page = Checker(run.at(7)._repr_html_())
    assert repr(reading).startswith("Reading(step 7, epoch ")
    assert repr(reading) in page.texts
    site = Site(Kind.WEIGHT, "net/conv/kernel")
    expected = compact(float(np.linalg.norm(np.asarray(truth[site][7], "float64"))))
    cells = page.texts[page.texts.index(site.path) :]
    assert site.path in page.texts
    assert expected in page.texts
    assert len(cells) > 3


def test_a_tensor_without_a_finite_element_is_shown_as_nan():
    summary = Summary.of([float("nan")] * 3).pack()[None]
    reading = Reading(4, 1, 0.0, [Site(Kind.GRADIENT, "a/kernel")], Summary.unpack(summary))
    texts = Checker(reading._repr_html_()).texts
    at = texts.index("a/kernel")
    assert texts[at + 1 : at + 4] == ["3", "NaN", "NaN"]


def test_a_step_that_was_not_measured_names_its_neighbours(run):
    steps = run.steps()
    found = run.at(int(steps[-1]) + 5)
    assert found == []
    assert f"the nearest: {steps[-1]}." in repr(found)
    assert f"the nearest: {steps[-1]}." in "".join(Checker(found._repr_html_()).texts)


def test_a_diagnosis_shows_its_findings(run):
    diagnosis = gradwatch.diagnose(run)
    assert diagnosis.findings
    texts = " ".join(Checker(diagnosis._repr_html_()).texts)
    for finding in diagnosis.findings:
        assert finding.title in texts
        assert finding.remedy in texts
        assert all_rules()[finding.rule].about in texts
        assert finding.title in repr(diagnosis)
    nothing = gradwatch.diagnose([])
    assert repr(nothing) == "Diagnosis: no findings"
    assert "No findings." in Checker(nothing._repr_html_()).texts


def test_a_table_of_runs_has_metrics_settings_tags_and_notes(tmp_path):
    told = {"config": {"lr": 0.01, "<b>": 1}, "tags": ["<i>sweep"], "note": "a try"}
    truth = metric_run(tmp_path / "a", **told)
    metric_run(tmp_path / "b", 1, config={"lr": 0.5})
    page = gradwatch.open(tmp_path)._repr_html_()
    last = {(site.kind, site.path): list(own.values())[-1] for site, own in truth.items()}
    for key in (("epoch_metric", "val_loss"), ("metric", "accuracy"), ("loss", "loss")):
        assert compact(last[key]) in page
    for words in ("val_accuracy", "lr", "0.01", "0.5", "[&lt;i&gt;sweep]", "a try", "&lt;b&gt;"):
        assert words in page
    assert page.count("<svg") == 2


def test_a_comparison_has_losses_and_metrics(tmp_path):
    gradients = {Site(Kind.GRADIENT, "net/w"): {1: np.ones(3)}}
    truth = metric_run(tmp_path / "a", 0, gradients)
    metric_run(tmp_path / "b", 1, gradients)
    page = gradwatch.compare(tmp_path / "a", tmp_path / "b")._repr_html_()
    for site, own in truth.items():
        # Metrics that are reported of steps and of epochs are shown once.
        if site.kind is not Kind.METRIC or site.path == "accuracy":
            assert compact(list(own.values())[-1]) in page
    assert "matched by path" in page
