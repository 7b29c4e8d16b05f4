"""The widget in a real browser: live while the kernel is busy, with the numbers of NumPy."""

import json

import numpy as np
import pytest

import gradwatch
from gradwatch.core import Kind, Site
from tests.cli.support import PATHS, arrays, make_run, write
from tests.view.browser import made
from tests.view.chromium import chromium
from tests.view.notebook.kernel import wired
from tests.view.notebook.notebook_page import NotebookPage


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture
def show(browser, monkeypatch):
    """Shows a run in a notebook; at the end nothing must be left of it, and nothing gone wrong."""
    wired(monkeypatch)
    shown = []

    def opened(directory, **options):
        widget = gradwatch.open(directory).widget()
        shown.append(NotebookPage(browser, widget, **options))
        return shown[-1]

    yield opened
    for notebook in shown:
        notebook.page.evaluate("window.end()")
        assert notebook.page.evaluate("window.listening()") == 0
        assert notebook.page.locator("iframe").count() == 0
        assert notebook.wrong == []
        assert {url.split("/")[2] for url in notebook.requests if url.startswith("http")} == {
            "notebook.test"
        }
        notebook.close()
        notebook.widget.close()


def assert_true(cells, truth, steps):
    for path in PATHS:
        assert [first for first, _, _ in cells[path]] == list(steps)
        values = [np.linalg.norm(truth[Site(Kind.GRADIENT, path)][step]) for step in steps]
        np.testing.assert_allclose([float(text) for _, text, _ in cells[path]], values, rtol=1e-12)


def test_it_is_live_while_the_kernel_is_busy_and_the_rest_comes_afterwards(show, tmp_path):
    truth = arrays()
    writer = write(tmp_path / "a", truth, last=10)
    notebook = show(tmp_path / "a")
    notebook.has("step 10")
    assert_true(notebook.cells(), truth, range(1, 11))
    assert notebook.asked == []  # it was all sent already

    notebook.is_idle = False
    writer.close()
    writer = write(tmp_path / "a", truth, first=11, last=30)
    notebook.has("step 30")
    notebook.until(lambda: len(notebook.cells()[PATHS[0]]) == 30)
    assert_true(notebook.cells(), truth, range(1, 31))
    notebook.frame.get_by_label("Kind").select_option("weight")
    notebook.has("weight: L2 norm")
    assert "The kernel runs a cell" not in notebook.text

    notebook.frame.locator(
        "[data-path='net/conv/kernel'] a, a[data-path='net/conv/kernel']"
    ).first.click()
    notebook.has("The kernel runs a cell")
    assert notebook.frame.locator(".site-charts").count() == 0
    assert [each["name"] for each in notebook.asked] == ["series"]
    notebook.is_idle = True
    notebook.until(notebook.frame.locator(".site-charts canvas").count)
    assert "The kernel runs a cell" not in notebook.text
    assert "last: step 30" in notebook.text
    norm = np.linalg.norm(truth[Site(Kind.WEIGHT, "net/conv/kernel")][30])
    assert f"{norm:.6g}" in notebook.text

    notebook.frame.get_by_role("link", name="a", exact=True).click()
    writer.close()
    notebook.has("finished")


def test_a_part_of_the_run_is_finer_if_the_kernel_answers(show, tmp_path):
    rng, steps = np.random.default_rng(0), range(1, 1001)
    truth = {Site(Kind.GRADIENT, "net/kernel"): {step: rng.normal(size=4) for step in steps}}
    make_run(tmp_path / "a", truth)
    notebook = show(tmp_path / "a")
    notebook.has("step 1,000")
    whole = notebook.cells()["net/kernel"]
    assert len(whole) < 250
    run = json.loads(notebook.widget.overview)["run"]["id"]
    go = "hash => { location.hash = hash; }"
    notebook.is_idle = False
    notebook.page.frames[-1].evaluate(go, f"#/run/{run}?from=201&to=260")
    # Of the columns that were sent, those of this part.
    notebook.until(lambda: len(notebook.cells()["net/kernel"]) < 30)
    assert set(notebook.cells()["net/kernel"]) < set(whole)
    assert "The kernel runs a cell" not in notebook.text
    notebook.is_idle = True
    notebook.until(lambda: not notebook.asked)
    notebook.page.frames[-1].evaluate(go, f"#/run/{run}?from=301&to=360")
    notebook.until(lambda: len(notebook.cells()["net/kernel"]) > 50)
    cells = {first: text for first, text, _ in notebook.cells()["net/kernel"]}
    for step in range(302, 359):
        true = np.linalg.norm(truth[Site(Kind.GRADIENT, "net/kernel")][step])
        assert float(cells[step]) == pytest.approx(true, rel=1e-12)


def test_pictures_and_findings_are_there_and_hostile_names_are_only_text(show, tmp_path):
    notebook = show(made.training(tmp_path / "a", steps=range(1, 121)))
    notebook.has("NaN")
    run = json.loads(notebook.widget.overview)["run"]["id"]
    path = "net/stem/conv/kernel"
    notebook.page.frames[-1].evaluate(
        "hash => { location.hash = hash; }", f"#/run/{run}/site?kind=weight&path={path}"
    )
    picture = notebook.frame.locator("img.site-picture")
    notebook.until(picture.count)
    assert notebook.until(lambda: picture.evaluate("image => image.naturalWidth")) > 0
    hostile = show(made.hostile(tmp_path / made.HOSTILE_RUN))
    hostile.has("step")
    hostile.until(hostile.frame.locator(".labels a.name").count)


@pytest.mark.parametrize(("background", "theme"), [("white", "light"), ("#111", "dark")])
def test_it_is_dark_where_the_notebook_is(show, tmp_path, background, theme):
    make_run(tmp_path / "a")
    notebook = show(tmp_path / "a", background=background)
    notebook.has("finished")
    assert notebook.frame.locator("html").get_attribute("data-theme") == theme
