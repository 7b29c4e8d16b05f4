"""A run of which few steps are measured: epochs, the end of the axis, and what is between."""

import re

import numpy as np
import pytest

from gradwatch.core import Kind, Reading, Site, Summary
from gradwatch.store.writer import StoreWriter
from tests.store.recorded import settle
from tests.view.browser.visiting import site_route

STEPS, EPOCH, OFTEN, SELDOM = 104, 13, 10, 50
KERNEL, BIAS = Site(Kind.GRADIENT, "dense/kernel"), Site(Kind.GRADIENT, "dense/bias")
STOPPED = Site(Kind.GRADIENT, "old/kernel")
LOSS, VAL_LOSS = Site(Kind.METRIC, "loss"), Site(Kind.EPOCH_METRIC, "val_loss")


def sites_of(step):
    yield LOSS
    if step % EPOCH == 0:
        yield VAL_LOSS
    if step % OFTEN == 0:
        yield KERNEL
    if step % SELDOM == 0:
        yield BIAS
    if step in (10, 20):
        yield STOPPED


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("sparse") / "runs"
    writer = StoreWriter(place / "sparse", first_step=1)
    for step in range(1, STEPS + 1):
        sites = list(sites_of(step))
        rows = np.array([Summary.of(np.full(2, 1.0 + step)).pack() for _ in sites])
        epoch = 1 + (step - 1) // EPOCH
        writer.write(Reading(step, epoch, 1.7e9 + step, sites, Summary.unpack(rows)))
    writer.close()
    settle()
    return place


def shares(opened, selector, left="box.left"):
    """Where elements are on the axis, from 0 to 1."""
    return opened.page.eval_on_selector_all(
        f".axis-plot {selector}",
        "(all) => { const plot = document.querySelector('.axis-plot').getBoundingClientRect();"
        "return all.map((one) => { const box = one.getBoundingClientRect();"
        f"return ({left} - plot.left) / plot.width; }}); }}",
    )


def test_epochs_are_marked_at_their_first_steps_and_the_axis_ends_with_the_run(visit, ids):
    opened = visit(f"/run/{ids['sparse']}").diagnosed()
    assert opened.page.locator(".epoch").all_inner_texts() == [str(e) for e in range(1, 9)]
    true = [EPOCH * e / STEPS for e in range(8)]
    assert shares(opened, ".epoch") == pytest.approx(true, abs=0.003)
    steps = [int(text) for text in opened.page.locator(".tick").all_inner_texts()]
    assert max(steps) <= STEPS
    middles = shares(opened, ".tick", "(box.left + box.right) / 2")
    assert middles == pytest.approx([(step - 0.5) / STEPS for step in steps], abs=0.003)


def shown_until(opened, path):
    """The steps from and until which a row has colours, by its pixels."""
    row = opened.labels().index(path)
    opaque = opened.page.locator(".heat-scroll canvas").evaluate(
        "(canvas, row) => { const ratio = devicePixelRatio, y = (row * 17 + 8) * ratio;"
        "const at = canvas.getContext('2d').getImageData(0, y - 5, canvas.width, 10).data;"
        # Hatched columns have no colour: red, green and blue are about the same.
        "return Array.from({length: canvas.width}, (_, x) => [...Array(10).keys()].every((i) => {"
        "const [r, g, b] = at.slice(4 * (i * canvas.width + x)); return Math.abs(r - b) > 20; }));"
        "}",
        row,
    )
    found = np.flatnonzero(opaque)
    return (
        1 + found[0] * STEPS / len(opaque),
        1 + (found[-1] + 1) * STEPS / len(opaque),
        len(found) == found[-1] - found[0] + 1,
    )


@pytest.mark.parametrize(
    ("path", "first", "end"),
    [("dense/kernel", 10, STEPS + 1), ("dense/bias", 50, STEPS + 1), ("old/kernel", 10, 30)],
)
def test_a_value_is_shown_until_the_next_one(visit, ids, path, first, end):
    opened = visit(f"/run/{ids['sparse']}?q=/").diagnosed()
    begin, until, is_whole = shown_until(opened, path)
    assert (begin, until) == pytest.approx((first, end), abs=0.3)
    assert is_whole


def test_zooming_in_between_two_measured_steps_shows_the_one_before(visit, ids):
    opened = visit(f"/run/{ids['sparse']}?from=53&to=58&q=kernel").diagnosed()
    canvas = opened.page.locator(".heat-scroll canvas")
    canvas.hover(position={"x": canvas.bounding_box()["width"] / 2, "y": 8})
    readout = opened.page.locator(".readout")
    assert readout.get_attribute("data-first") == "50"
    assert float(readout.get_attribute("data-value")) == pytest.approx(51 * 2**0.5)


def test_a_saved_heatmap_follows_the_same_rule(visit, ids):
    opened = visit(f"/run/{ids['sparse']}?q=kernel").diagnosed()
    _, content = opened.download("the heatmap", "SVG")
    # Cells have sharp edges, the colours of the legend have not.
    boxes = re.findall(rb'<path d="([^"]*)" fill="rgb[^>]*crispEdges', content)
    ends = [float(x) for box in boxes for x in re.findall(rb"H([\d.]+)", box)]
    assert max(ends) == 820
    begins = [float(x) for box in boxes for x in re.findall(rb"M([\d.]+)", box)]
    assert min(begins) == pytest.approx(820 * 9 / STEPS, abs=0.6)


def test_all_charts_of_a_site_begin_and_end_with_the_run(visit, ids):
    opened = visit(site_route(ids["sparse"], "gradient", "dense/bias"))
    norms = opened.table("Norms")
    assert norms["first_step"] == ["50", "100"]
    _, content = opened.download("Norms", "SVG")
    labels = [int(text) for text in re.findall(rb">(\d+)</text>", content)]
    assert 20 in labels
