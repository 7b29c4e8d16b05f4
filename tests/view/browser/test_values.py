"""The numbers on the pages are those of the reader, and of NumPy."""

import ml_dtypes
import numpy as np
import pytest

from gradwatch.view.data.distribution import LEVELS
from tests.view.browser import made
from tests.view.browser.numbers import floats, same, shown_series
from tests.view.browser.visiting import site_route


def values_of(cells):
    return [text for _, text, _ in cells]


WIDE = {"width": 1500, "height": 1000}
SHOWN = {
    "gradient": ("l2", "mean", "linf"),
    "weight": ("rms",),
    "update": ("update_ratio",),
    "output": ("std",),
}


def test_the_heatmap_has_the_values_of_the_reader(visit, ids, golden):
    opened = visit(viewport=WIDE)
    for kind, statistic in [(kind, each) for kind, names in SHOWN.items() for each in names]:
        opened.go(f"/run/{ids['golden']}?kind={kind}&stat={statistic}")
        shown = opened.heatmap()
        for site in golden.sites(kind):
            steps, values = shown_series(golden, kind, site.path, statistic)
            assert [first for first, _, _ in shown[site.path]] == steps.tolist()
            assert same(values_of(shown[site.path]), values)
        merged = floats(values_of(shown["net"]))
        np.testing.assert_allclose(
            merged, shown_series(golden, kind, "net", statistic)[1], rtol=1e-12
        )


def test_the_heatmap_has_the_values_of_numpy(visit, ids):
    shown = visit(f"/run/{ids['golden']}", viewport=WIDE).heatmap()
    for path in made.PATHS:
        for step, text, nonfinite in shown[path]:
            true = made.gradient(path, step).astype(np.float64)
            assert float(text) == pytest.approx(np.linalg.norm(true), rel=1e-12, nan_ok=True)
            assert nonfinite == np.count_nonzero(~np.isfinite(true))


def test_steps_that_do_not_fit_are_merged_as_the_reader_merges_them(visit, ids, golden):
    opened = visit(f"/run/{ids['golden']}?stat=mean", viewport={"width": 760, "height": 900})
    shown = opened.heatmap()
    columns = int(opened.asked("heatmap")[-1]["columns"])
    sites = golden.sites("gradient")
    true = golden.heatmap("gradient", "mean", max_cells=columns * len(sites))
    assert 1 < len(true.first) < len(made.STEPS)
    for site, values in zip(true.sites, true.shown, strict=True):
        assert [first for first, _, _ in shown[site.path]] == true.first.tolist()
        assert same(values_of(shown[site.path]), values)


def test_cells_that_are_not_finite_are_marked_in_the_table_and_in_colour(visit, ids):
    opened = visit(f"/run/{ids['golden']}", viewport=WIDE)
    shown = opened.heatmap()
    marked = {
        path: [first for first, _, nonfinite in cells if nonfinite] for path, cells in shown.items()
    }
    bad = list(made.BAD_STEPS)
    hit = {"net", "net/block2/dense", made.BAD}
    assert marked == {path: bad if path in hit else [] for path in shown}
    # Of the middle of the row, the pixels: magenta, as nothing else is, and only there.
    reds = opened.page.evaluate(
        """(row) => {
          const canvas = document.querySelector('.heat-scroll canvas');
          const ratio = canvas.width / canvas.clientWidth;
          const y = Math.round((row + 0.25) * 17 * ratio);
          const line = canvas.getContext('2d').getImageData(0, y, canvas.width, 1).data;
          const found = [];
          for (let x = 0; x < canvas.width; x++)
            if (line[4 * x] > 200 && line[4 * x + 1] < 60 && line[4 * x + 2] > 150)
              found.push(x / canvas.width);
          return found;
        }""",
        opened.labels().index(made.BAD),
    )
    assert reds
    assert min(reds) == pytest.approx((made.BAD_STEPS.start - 1) / 240, abs=0.002)
    assert max(reds) == pytest.approx((made.BAD_STEPS.stop - 1) / 240, abs=0.002)


def test_pointing_at_a_cell_reads_its_value(visit, ids, golden):
    opened = visit(f"/run/{ids['golden']}").diagnosed()
    canvas = opened.page.locator(".heat-scroll canvas")
    row = opened.labels().index("net/head/kernel")
    width = canvas.bounding_box()["width"]
    opened.page.mouse.move(0, 0)
    canvas.hover(position={"x": width * 149.5 / 240, "y": row * 17 + 8})
    readout = opened.page.locator(".readout")
    steps, values = golden.series("gradient", "net/head/kernel")
    assert readout.get_attribute("data-path") == "net/head/kernel"
    assert readout.get_attribute("data-first") == "150"
    assert float(readout.get_attribute("data-value")) == values[steps.tolist().index(150)]
    loss = opened.page.locator('[data-number="loss"]')
    assert float(loss.get_attribute("data-value")) == made.loss(150)


def test_losses_and_learning_rates_have_the_values_of_the_reader(visit, ids, golden):
    opened = visit(f"/run/{ids['golden']}", viewport=WIDE)
    opened.page.get_by_role("button", name="Table of loss and other numbers").click()
    rows = opened.page.eval_on_selector_all(
        ".strips .chart-table tbody tr", "rows => rows.map(r => [...r.cells].map(c => c.title))"
    )
    shown = {}
    for *_, path, first, last, value in rows:
        assert first == last
        shown.setdefault(path, []).append((int(first), value))
    assert set(shown) == {"loss", "learning_rate"}
    for path, kind in (("loss", "loss"), ("learning_rate", "scalar")):
        steps, values = golden.series(kind, path, "value")
        assert [step for step, _ in shown[path]] == steps.tolist()
        assert same([text for _, text in shown[path]], values)
    assert same([text for _, text in shown["loss"]], [made.loss(step) for step in made.STEPS])


SPREAD = {"mean": "mean", "min–max low": "min", "min–max high": "max"}  # noqa: RUF001


def test_a_site_has_the_values_of_the_reader(visit, ids, golden):
    path = "net/stem/conv/kernel"
    opened = visit(site_route(ids["golden"], "gradient", path))
    norms, spread = opened.table("Norms"), opened.table("Mean and spread")
    steps = [str(step) for step in made.STEPS]
    assert norms["first_step"] == norms["last_step"] == spread["first_step"] == steps
    for name, statistic in {"L2 norm": "l2", "largest |x|": "linf", "RMS": "rms"}.items():
        assert same(norms[name], shown_series(golden, "gradient", path, statistic)[1])
    for name, statistic in SPREAD.items():
        assert same(spread[name], shown_series(golden, "gradient", path, statistic)[1])
    mean, std = (shown_series(golden, "gradient", path, name)[1] for name in ("mean", "std"))
    np.testing.assert_allclose(floats(spread["± std high"]), mean + std, rtol=1e-12, atol=1e-15)
    last = opened.chart("Norms").locator('[data-name="L2 norm"]')
    assert float(last.get_attribute("data-value")) == float(norms["L2 norm"][-1])


def test_a_block_is_its_sites_merged(visit, ids):
    opened = visit(site_route(ids["golden"], "gradient", "net/block2/dense"))
    shown = opened.table("Norms")["L2 norm"]
    for step, text in zip(made.STEPS, shown, strict=True):
        parts = [made.gradient(f"net/block2/dense/{part}", step) for part in made.SHAPES]
        true = np.concatenate([each.ravel() for each in parts]).astype(np.float64)
        assert float(text) == pytest.approx(np.linalg.norm(true), rel=1e-12, nan_ok=True)
    assert "2 tensors, merged into one" in opened.text


def test_shares_of_zeros_and_of_what_is_not_finite_are_true(visit, ids):
    opened = visit(site_route(ids["golden"], "gradient", made.BAD))
    shown = opened.table("Zeros and non-finite elements")
    true = [np.mean(~np.isfinite(made.gradient(made.BAD, step))) for step in made.STEPS]
    assert same(shown["NaN or infinite"], true)
    marks = opened.table("Norms")["marked"]
    assert [bool(mark) for mark in marks] == [share > 0 for share in true]
    opened.go(site_route(ids["golden"], "gradient", made.STOPPED))
    shown = opened.table("Zeros and non-finite elements")
    assert same(shown["zero"], [step >= made.STOPPED_SINCE for step in made.STEPS])


def test_update_ratios_are_those_of_the_reader(visit, ids, golden):
    opened = visit(site_route(ids["golden"], "update", "net/head/kernel"))
    shown = opened.table("Update / weight")["ratio"]
    assert same(shown, golden.series("update", "net/head/kernel", "update_ratio")[1])


def test_distributions_are_those_of_the_histograms(visit, ids, golden):
    path = "net/stem/conv/kernel"
    opened = visit(site_route(ids["golden"], "gradient", path))
    steps, histograms = golden.histograms("gradient", path)
    shown = opened.table("Quantiles over time")
    assert shown["first_step"] == [str(step) for step in steps]
    median = [each.quantile(0.5) for each in histograms]
    assert same(shown["median"], median)
    names = [name for name in shown if name.endswith(" low")]
    for name, level in zip(names, LEVELS, strict=False):
        high = [float(text) for text in shown[name.removesuffix("low") + "high"]]
        if level == 0:
            assert same(shown[name], [each.summary.min for each in histograms])
            assert high == [each.summary.max for each in histograms]
        else:
            assert same(shown[name], [each.quantile(level) for each in histograms])
            assert high == [each.quantile(1 - level) for each in histograms]
    bins = opened.table("Histograms over time")
    at, shares = np.array(floats(bins["step"])), np.array(floats(bins["share"]))
    highs = np.array(floats(bins["bin_high"]))
    for step in steps.tolist():
        own = shares[at == step]
        assert own.sum() == pytest.approx(1.0, rel=1e-12)
        true = made.gradient(path, step).ravel()
        below = [(true <= high).mean() for high in highs[at == step]]
        np.testing.assert_allclose(np.cumsum(own), below, atol=0.03)


def test_what_casts_would_lose_is_true_of_the_elements(visit, ids, golden):
    path = "net/head/kernel"
    opened = visit(site_route(ids["golden"], "gradient", path))
    last = int(golden.histogram_steps("gradient", path)[-1])
    rows = opened.page.locator(".site-casts tbody tr")
    opened.until(lambda: rows.count() == 4)
    assert f"at step {last}," in opened.page.inner_text(".site-casts caption")
    true = made.gradient(path, last).ravel()
    for name, row in zip(
        ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"), rows.all(), strict=True
    ):
        assert row.locator("th").inner_text() == name
        cast = true.astype(getattr(ml_dtypes, name, name)).astype(float)
        normal = float(ml_dtypes.finfo(getattr(ml_dtypes, name, name)).smallest_normal)
        outcomes = (cast == 0, (cast != 0) & (abs(cast) < normal), ~np.isfinite(cast))
        for cell, is_so in zip(row.locator("td").all(), outcomes, strict=True):
            low, high = map(float, cell.get_attribute("title").split(" to "))
            assert low <= is_so.mean() <= high < low + 0.2


def test_pictures_are_those_that_were_drawn_and_the_slider_chooses(visit, ids, golden):
    path = "net/stem/conv/kernel"
    opened = visit(site_route(ids["golden"], "weight", path))
    steps, _files = golden.pictures(path)
    picture = opened.page.locator("img.site-picture")
    picture.evaluate("image => image.decode()")
    assert f"step={steps[-1]}" in picture.get_attribute("src")
    slider = opened.page.get_by_label("Step of the picture")
    slider.focus()
    slider.press("Home")
    opened.until(lambda: f"step={steps[0]}" in picture.get_attribute("src"))
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") > 0
    opened.until(lambda: opened.state.get("picture") == str(steps[0]))
