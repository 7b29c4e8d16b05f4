"""Losses, metrics and settings on the pages are those that were recorded."""

import numpy as np
import pytest

from tests.view.axe import violations
from tests.view.browser.numbers import floats
from tests.view.data.made_metrics import EPOCH, STEPS, metric_run

RUNS = {
    "first": {"config": {"lr": 0.01, "net": {"units": 8}}, "tags": ["sweep"], "note": "a try"},
    "second": {"config": {"lr": 0.1, "net": {"units": 8}}},
    "third": {"config": {"lr": 1e-4, "net": {"units": 8}}},
}


@pytest.fixture(scope="module")
def truths(tmp_path_factory):
    """Three runs, and what is true of their numbers by kind and path."""
    place = tmp_path_factory.mktemp("browsed") / "runs"
    made = {}
    for seed, (name, told) in enumerate(RUNS.items()):
        numbers = metric_run(place / name, seed, **told)
        made[name] = {(str(site.kind), site.path): own for site, own in numbers.items()}
    return place, made


@pytest.fixture(scope="module")
def place(truths):
    return truths[0]


def smoothed(values, weight):
    """Each value's mean with those before it, weighted by how long ago they were."""
    values, ages = np.asarray(values), np.arange(len(values))
    return [
        float(np.average(values[: i + 1], weights=weight ** ages[: i + 1][::-1]))
        for i in range(len(values))
    ]


def test_the_loss_of_a_run_is_shown_with_its_validation(visit, ids, truths):
    own = truths[1]["first"]
    shown = visit(f"/run/{ids['first']}?smooth=0.5").table("loss")
    steps = floats(shown["step"])
    assert steps == list(range(1, STEPS + 1))
    for column, key in {
        "loss": ("loss", "loss"),
        "loss as reported": ("metric", "loss"),
        "val_loss": ("epoch_metric", "val_loss"),
    }.items():
        read = {step: float(cell) for step, cell in zip(steps, shown[column], strict=True) if cell}
        assert read == pytest.approx(own[key], rel=1e-12)
    read = [float(cell) for cell in shown["loss smoothed"] if cell]
    assert read == pytest.approx(smoothed(list(own["loss", "loss"].values()), 0.5), rel=1e-9)


def test_accuracy_shares_a_chart_with_its_validation(visit, ids, truths):
    own = truths[1]["first"]
    shown = visit(f"/run/{ids['first']}?smooth=0").table("accuracy")
    assert floats(shown["accuracy"]) == pytest.approx(list(own["metric", "accuracy"].values()))
    read = [float(cell) for cell in shown["val_accuracy"] if cell]
    assert read == pytest.approx(list(own["epoch_metric", "val_accuracy"].values()))


@pytest.mark.parametrize(
    ("along", "head", "of_step"),
    [
        ("step", "step", lambda step: step),
        ("epoch", "epoch", lambda step: step / EPOCH),
    ],
)
def test_the_losses_of_runs_are_overlaid(visit, ids, truths, along, head, of_step):
    chosen = ",".join(ids[name] for name in RUNS)
    shown = visit(f"/compare?runs={chosen}&smooth=0&x={along}").table("loss")
    positions = floats(shown[head])
    for name, own in truths[1].items():
        for column, key in {
            name: ("loss", "loss"),
            f"{name}: val_loss": ("epoch_metric", "val_loss"),
        }.items():
            cells = zip(positions, shown[column], strict=True)
            read = {at: float(cell) for at, cell in cells if cell}
            true = {of_step(step): value for step, value in own[key].items()}
            assert list(read) == pytest.approx(list(true))
            assert list(read.values()) == pytest.approx(list(true.values()), rel=1e-12)


def test_runs_overlaid_over_time_begin_together(visit, ids, truths):
    chosen = ",".join(ids[name] for name in RUNS)
    shown = visit(f"/compare?runs={chosen}&smooth=0&x=time").table("accuracy")
    seconds = [
        at for at, cell in zip(floats(shown["seconds"]), shown["first"], strict=True) if cell
    ]
    assert np.diff(seconds) == pytest.approx(np.ones(STEPS - 1))


def test_the_list_has_metrics_settings_tags_and_notes(visit, truths):
    opened = visit("/")
    opened.until(lambda: opened.page.locator("td[data-label=val_loss] span").count() == 3)
    row = opened.page.locator("tr", has_text="first").first
    for metric in ("val_loss", "val_accuracy"):
        title = row.locator(f"td[data-label={metric}] span").get_attribute("title")
        last = list(truths[1]["first"]["epoch_metric", metric].values())[-1]
        assert float(title) == pytest.approx(last, rel=1e-12)
    assert row.locator("td[data-label=lr]").inner_text() == "0.01"
    # A setting that is the same in all runs is no column until it is chosen.
    assert row.locator("td[data-label='net.units']").count() == 0
    assert "sweep" in row.inner_text()
    assert "a try" in row.inner_text()
    assert row.locator(".sparkline path").count() == 1
    opened.page.get_by_text("Columns").click()
    assert violations(opened.page) == []
    opened.page.get_by_label("net.units").check()
    opened.until(lambda: row.locator("td[data-label='net.units']").count() == 1)


def test_runs_are_sorted_by_a_setting_as_numbers(visit):
    opened = visit("/")
    opened.until(lambda: opened.page.locator("td[data-label=lr] span").count() == 3)

    def order():
        return opened.page.locator("td.run-name a").all_inner_texts()

    opened.page.get_by_role("button", name="lr").click()
    opened.until(lambda: order() == ["second", "first", "third"])
    opened.page.get_by_role("button", name="lr").click()
    opened.until(lambda: order() == ["third", "first", "second"])
    opened.page.get_by_role("searchbox").fill("lr=0.1")
    opened.until(lambda: order() == ["second"])


@pytest.mark.parametrize("route", ["/", "/compare?runs={}", "/run/{}"])
def test_pages_fit_a_phone(visit, ids, route):
    chosen = ",".join(ids[name] for name in RUNS) if "compare" in route else ids["first"]
    opened = visit(route.format(chosen), viewport={"width": 390, "height": 844})
    opened.until(lambda: "first" in opened.text)
    assert opened.overflow() == 0
    assert violations(opened.page) == []
    if route == "/":
        opened.page.get_by_text("Columns").click()
        assert opened.overflow() == 0
