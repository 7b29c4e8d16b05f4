"""Five hundred names that mean harm are text, wherever they are shown, and lead to their sites."""

import csv
import io
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import gradwatch
from tests.view.browser.made import HOSTILE, HOSTILE_RUN, HOSTILE_STEPS, HOSTILE_TWIN
from tests.view.browser.numbers import shown_series
from tests.view.browser.visiting import site_route

# What only a name could have brought onto the page.
BROUGHT = "img[src=x], svg[onload], iframe, base, [onerror], [onfocus], body script:not([src])"
TALL = {"width": 1200, "height": 9_600}


@pytest.fixture(scope="module")
def hostile(place):
    with gradwatch.open(place / HOSTILE_RUN) as run:
        yield run


def assert_is_text(opened):
    assert opened.page.locator(BROUGHT).count() == 0
    assert opened.page.locator("link[rel=stylesheet]").count() == 1
    opened.assert_harmless()


def test_all_names_are_rows_with_the_values_of_the_reader(visit, ids, hostile):
    assert len(HOSTILE) == 500
    # A search lists all sites with their whole paths.
    opened = visit(f"/run/{ids[HOSTILE_RUN]}?q=!nothing", viewport=TALL)
    shown = opened.heatmap()
    assert set(shown) == {site.path for site in hostile.sites("gradient")}
    for path, cells in shown.items():
        values = shown_series(hostile, "gradient", path)[1]
        assert np.array_equal([float(text) for _, text, _ in cells], values, equal_nan=True)
        assert [bool(bad) for *_, bad in cells] == [path == HOSTILE[0]] * len(HOSTILE_STEPS)
    assert_is_text(opened)


def test_all_names_are_rows_of_their_tree(visit, ids, hostile):
    opened = visit(f"/run/{ids[HOSTILE_RUN]}?open=a", viewport=TALL)
    found = set()
    for _ in range(4):
        found |= set(opened.labels())
        opened.page.keyboard.press("PageDown")
        opened.settle()
    assert {site.path for site in hostile.sites("gradient")} <= found
    assert_is_text(opened)


@pytest.mark.slow
def test_pages_of_hostile_names_open(visit, ids, hostile):
    opened = visit(f"/run/{ids[HOSTILE_RUN]}")
    for site in hostile.sites("gradient")[::17]:
        opened.page.evaluate(
            "(hash) => { location.hash = hash }",
            site_route(ids[HOSTILE_RUN], "gradient", site.path),
        )
        opened.until(
            lambda path=site.path: opened.asked("series")[-1:] == [asked_for(opened, path)]
        )
        opened.settle()
        key = opened.chart("Norms").locator('[data-name="L2 norm"]')
        values = shown_series(hostile, "gradient", site.path)[1]
        shown = float(key.get_attribute("data-value"))
        assert np.array_equal(shown, values[-1], equal_nan=True), site.path
        assert opened.page.locator(".problem").count() == 0
    assert_is_text(opened)


def asked_for(opened, path):
    """The last request for a series, if it is of that path."""
    last = opened.asked("series")[-1:]
    return last[0] if last and last[0].get("path", "") == path else None


def test_what_cannot_be_seen_is_spelled(visit, ids):
    opened = visit("/")
    names = opened.page.locator("td.run-name").all_inner_texts()
    assert HOSTILE_TWIN.replace("\u202e", r"\u202e") in names
    opened.go(f"/run/{ids[HOSTILE_RUN]}?q=!nothing")
    opened.page.set_viewport_size(TALL)
    opened.settle()
    shown = opened.page.locator(".labels a.name").all_inner_texts()
    for spelled in (r"a\x00b", r"a\r\nSet-Cookie: x", r"tab\tand\nline", r"a\u2028b\u2029c"):
        assert spelled in shown
    heights = opened.page.eval_on_selector_all(
        ".labels .name", "names => names.map(n => n.getBoundingClientRect().height)"
    )
    assert max(heights) <= 17


def test_a_comparison_of_hostile_names_has_the_values_of_the_reader(visit, ids, hostile):
    opened = visit(f"/compare?runs={ids[HOSTILE_RUN]},{ids[HOSTILE_TWIN]}")
    # By a file: the table has no more than its first rows.
    rows = list(csv.DictReader(io.StringIO(opened.download("Ratio by layer", "CSV")[1].decode())))
    sites = [site.path for site in hostile.sites("gradient")]
    assert {row["path"] for row in rows} >= set(sites)
    # Four times as large, but for what is all NaN, and so the whole model, too.
    bad = {row["path"] for row in rows if row["log2_ratio"] == "nan"}
    assert bad == {HOSTILE[0], "model"}
    # Several tensors are added up in an order that is not the same each time.
    ratios = [float(row["log2_ratio"]) for row in rows if row["path"] not in bad]
    assert ratios == pytest.approx([2.0] * len(ratios), rel=1e-12)
    plain = [row for row in rows if row["path"] == "net/plain/kernel"]
    shown = [float(row[HOSTILE_RUN]) for row in plain]
    assert shown == shown_series(hostile, "gradient", "net/plain/kernel")[1].tolist()
    _, picture = opened.download("Ratio by layer", "SVG")
    tags = {each.tag.rpartition("}")[2] for each in ET.fromstring(picture).iter()}
    assert tags <= {"svg", "g", "rect", "line", "text", "title", "path", "clipPath"}
    assert_is_text(opened)


def test_files_have_plain_names_whatever_the_charts_are_called(visit, ids):
    opened = visit(site_route(ids[HOSTILE_RUN], "gradient", "net/../../etc/passwd/bias"))
    for format in ("CSV", "SVG", "PNG"):
        name, content = opened.download("Norms", format)
        assert content
        assert "/" not in name
        assert "<" not in name
        assert not name.startswith(".")
    assert_is_text(opened)
