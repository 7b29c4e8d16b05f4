"""Charts are saved as files whose content is that of the page."""

import csv
import io
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from PIL import Image

from tests.view.browser import made
from tests.view.browser.numbers import shown_series
from tests.view.browser.visiting import site_route

SVG = "{http://www.w3.org/2000/svg}"
ALLOWED = {
    "svg",
    "clipPath",
    "g",
    "path",
    "rect",
    "line",
    "text",
    "title",
    "polyline",
    "circle",
    "polygon",
}


def rows_of(content):
    return list(csv.DictReader(io.StringIO(content.decode("utf-8"), newline="")))


def assert_is_a_picture(content):
    """A whole SVG that shows and does nothing else."""
    root = ET.fromstring(content)
    assert root.tag == f"{SVG}svg"
    tags = {each.tag.removeprefix(SVG) for each in root.iter()}
    assert tags <= ALLOWED, tags
    for each in root.iter():
        assert not [name for name in each.attrib if name.startswith("on") or "href" in name]
    return root


def assert_is_a_png_of(content, root):
    with Image.open(io.BytesIO(content)) as image:
        image.load()
        assert image.format == "PNG"
        wanted = (2 * float(root.get("width")), 2 * float(root.get("height")))
        assert image.size == pytest.approx(wanted, abs=2)
        # Something is drawn.
        assert len(image.convert("RGB").getcolors(1 << 24)) > 10


def test_the_heatmap_is_saved_with_the_values_of_the_reader(visit, ids, golden):
    opened = visit(f"/run/{ids['golden']}", viewport={"width": 1500, "height": 1000})
    name, content = opened.download("the heatmap", "CSV")
    assert name.startswith("golden-gradient")
    assert name.endswith(".csv")
    rows = rows_of(content)
    for site in golden.sites("gradient"):
        steps, values = shown_series(golden, "gradient", site.path)
        own = [row for row in rows if row["path"] == site.path]
        assert [int(row["first_step"]) for row in own] == steps.tolist()
        shown = [float(list(row.values())[3]) for row in own]
        assert np.array_equal(shown, values, equal_nan=True)
    _, picture = opened.download("the heatmap", "SVG")
    root = assert_is_a_picture(picture)
    texts = {each.text for each in root.iter(f"{SVG}text")}
    assert {"NaN or Inf", "step"} <= texts
    _, png = opened.download("the heatmap", "PNG")
    assert_is_a_png_of(png, root)


def test_loss_and_other_numbers_are_saved(visit, ids):
    opened = visit(f"/run/{ids['golden']}", viewport={"width": 1500, "height": 1000})
    _, content = opened.download("loss and other numbers", "CSV")
    shown = [float(row["value"]) for row in rows_of(content) if row["path"] == "loss"]
    true = [made.loss(step) for step in made.STEPS]
    assert np.array_equal(shown, true, equal_nan=True)
    _, picture = opened.download("loss and other numbers", "SVG")
    root = assert_is_a_picture(picture)
    _, png = opened.download("loss and other numbers", "PNG")
    assert_is_a_png_of(png, root)


@pytest.mark.parametrize(
    ("title", "columns"),
    [("Norms", {"L2 norm": "l2"}), ("Mean and spread", {"mean": "mean"})],
)
def test_a_sites_charts_are_saved(visit, ids, golden, title, columns):
    path = "net/head/kernel"
    opened = visit(site_route(ids["golden"], "gradient", path))
    name, content = opened.download(title, "CSV")
    assert name == f"golden-gradient-net_head_kernel-{title.replace(' ', '_')}.csv"
    rows = rows_of(content)
    for column, statistic in columns.items():
        true = shown_series(golden, "gradient", path, statistic)[1]
        assert [float(row[column]) for row in rows] == true.tolist()
    _, picture = opened.download(title, "SVG")
    root = assert_is_a_picture(picture)
    _, png = opened.download(title, "PNG")
    assert_is_a_png_of(png, root)


def test_histograms_and_comparisons_are_saved(visit, ids):
    opened = visit(site_route(ids["golden"], "gradient", "net/head/kernel"))
    for title in ("Quantiles over time", "Histograms over time"):
        root = assert_is_a_picture(opened.download(title, "SVG")[1])
        assert_is_a_png_of(opened.download(title, "PNG")[1], root)
        assert rows_of(opened.download(title, "CSV")[1])
    opened.go(f"/compare?runs={ids['golden']},{ids['other']}")
    shown = opened.table("Ratio by layer")
    _, content = opened.download("Ratio by layer", "CSV")
    rows = rows_of(content)
    for name, values in shown.items():
        assert [row[name] for row in rows[: len(values)]] == values
    root = assert_is_a_picture(opened.download("Ratio by layer", "SVG")[1])
    assert_is_a_png_of(opened.download("Ratio by layer", "PNG")[1], root)
