"""The page opens from disk, alone, and shows the reader's numbers whatever the names are."""

import json
import math
import re
from urllib.parse import quote

import pytest

import gradwatch
from tests.cli.support import strict
from tests.variants import rarely
from tests.view.browser.numbers import floats, same, shown_series
from tests.view.chromium import Watched
from tests.view.report.made import HOSTILE, STEPS


@pytest.fixture(scope="module")
def reports(tmp_path_factory, golden_run, hostile_run):
    """The reports as addresses of files on disk."""
    place = tmp_path_factory.mktemp("reports")
    return {
        run.name: gradwatch.report(run, place / f"{run.name}.html").as_uri()
        for run in (golden_run, hostile_run)
    }


def open_page(watched, address, route=""):
    watched.page.goto(f"{address}{route}")
    watched.page.wait_for_load_state("networkidle")


def site_route(kind, path):
    return f"#/run/r/site?kind={kind}&path={quote(path, safe='')}"


def table_of_heatmap(watched, count):
    """By path, the cells of the rows in sight, as the page's own table has them.

    Args:
        watched: the page.
        count: how many rows there are at least; they come some at a time.
    """
    watched.page.get_by_role("button", name="Table of the heatmap").click()
    rows = watched.page.locator(".heat-table tbody tr")
    watched.until(lambda: rows.count() >= count)
    return dict(
        rows.evaluate_all(
            "rows => rows.map(r => [r.dataset.path, [...r.querySelectorAll('td')].map("
            "c => [Number(c.dataset.first), c.title, Number(c.dataset.nonfinite)])])",
        )
    )


def assert_nothing_happened(watched, address):
    assert watched.wrong == []
    assert {url.partition("#")[0] for url in watched.requests} <= {address}


def test_the_heatmap_of_a_report_shows_the_values_of_the_reader(browser, reports, golden_run):
    with Watched(browser) as watched, gradwatch.open(golden_run) as run:
        open_page(watched, reports["golden"])
        cells = table_of_heatmap(watched, len(run.sites("gradient")))
        for site in run.sites("gradient"):
            steps, values = shown_series(run, "gradient", site.path)
            assert [first for first, _, _ in cells[site.path]] == steps.tolist()
            assert same([text for _, text, _ in cells[site.path]], values)
        bad = [first for first, _, count in cells["net/logits/bias"] if count]
        assert bad == [step for step in STEPS if step >= 20]
        merged = floats([text for _, text, _ in cells["net"]])
        assert merged == pytest.approx(
            shown_series(run, "gradient", "net")[1], rel=1e-12, nan_ok=True
        )
        assert_nothing_happened(watched, reports["golden"])


def test_findings_facts_and_the_loss_are_there(browser, reports):
    with Watched(browser) as watched:
        open_page(watched, reports["golden"])
        watched.page.wait_for_selector(".strip canvas")
        text = watched.page.inner_text("body")
        assert "NaN in step 22, first in gradient net/logits/bias." in text
        assert "30 of them measured" in text
        assert "loss" in text
        assert_nothing_happened(watched, reports["golden"])


def test_a_site_of_a_report_has_its_plots_and_pictures(browser, reports):
    with Watched(browser) as watched:
        open_page(watched, reports["golden"], site_route("weight", "net/conv/kernel"))
        watched.page.wait_for_selector("canvas")
        picture = watched.page.locator("img").first
        picture.wait_for()
        assert picture.get_attribute("src").startswith("data:image/png;base64,")
        assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") > 0
        assert "net/conv/kernel" in watched.page.inner_text("body")
        assert "float8_e5m2" in watched.page.inner_text(".site-casts")
        assert_nothing_happened(watched, reports["golden"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_hostile_names_are_text(browser, reports, hostile_run, scheme):
    with Watched(browser, color_scheme=scheme, viewport={"width": 1200, "height": 2500}) as watched:
        open_page(watched, reports["hostile"])
        cells = table_of_heatmap(watched, len(HOSTILE) + 1)
        with gradwatch.open(hostile_run) as run:
            for site in run.sites("gradient"):
                if site.path in cells:
                    values = shown_series(run, "gradient", site.path)[1]
                    assert same([text for _, text, _ in cells[site.path]], values)
        assert len(cells) > len(HOSTILE)
        assert watched.page.locator("img[src=x], svg[onload], body script:not([type])").count() == 0
        assert_nothing_happened(watched, reports["hostile"])


@pytest.mark.parametrize(
    "name", [*HOSTILE[::4], *rarely(*(each for i, each in enumerate(HOSTILE) if i % 4))]
)
def test_the_page_of_a_hostile_site_opens(browser, reports, name):
    with Watched(browser) as watched:
        open_page(watched, reports["hostile"], site_route("gradient", f"{name}/kernel"))
        watched.page.wait_for_selector("h1, h2")
        assert_nothing_happened(watched, reports["hostile"])


def test_what_is_inlined_is_strict_json_without_markup(tmp_path, hostile_run):
    text = gradwatch.report(hostile_run, tmp_path / "report.html").read_text()
    inlined = re.findall(
        r'<script type="application/json" id="snapshot">(.*?)</script>', text, re.S
    )
    assert len(inlined) == 1
    assert not re.search(r"[<>&\u2028\u2029]", inlined[0])
    assert inlined[0].isascii()
    snapshot = strict(inlined[0])
    labels = [label for tree in snapshot["trees"] for label in tree["label"]]
    assert "script><img src=x onerror=alert(1)>" in labels
    # One script runs, and the policy names its hash alone.
    assert len(re.findall(r"<script type=\"module\">", text)) == 1
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "http" not in policy


def test_a_changed_script_does_not_run(browser, tmp_path, golden_run):
    text = gradwatch.report(golden_run, tmp_path / "report.html").read_text()
    changed = tmp_path / "changed.html"
    changed.write_text(text.replace('<script type="module">', '<script type="module">alert(1);', 1))
    with Watched(browser) as watched:
        watched.page.goto(changed.as_uri())
        watched.page.wait_for_load_state("networkidle")
        assert watched.page.inner_text("#app") == ""
        assert [w for w in watched.wrong if w.startswith("dialog")] == []
        assert any("script-src" in w or "Content Security Policy" in w for w in watched.wrong)


def test_the_series_of_the_worst_layers_come_first(tmp_path, golden_run):
    text = gradwatch.report(golden_run, tmp_path / "report.html").read_text()
    snapshot = json.loads(re.search(r'id="snapshot">(.*?)</script>', text, re.S)[1])
    first = [(each["kind"], each["path"]) for each in snapshot["series"]]
    assert first[0] == ("gradient", "net/logits/bias")
    with gradwatch.open(golden_run) as run:
        assert {(str(s.kind), s.path) for s in run.sites() if s.kind != "loss"} <= set(first)
    assert not any(math.isnan(f["since"]) for f in snapshot["run"]["findings"])
