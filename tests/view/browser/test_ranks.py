"""A run of several ranks in a real browser: what is read there is what the reader says."""

import re

import numpy as np
import pytest

import gradwatch
from gradwatch.diagnosis.replay import findings_of
from tests.view.browser import made_ranks, numbers
from tests.view.browser.made_ranks import CRASHED, LATE, MISSING, SLOW
from tests.view.browser.visiting import site_route
from tests.view.chromium import Watched


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("ranks") / "runs"
    made_ranks.ranks(place / "four")
    made_ranks.write(place / "one", 0).close()
    return place


@pytest.fixture(scope="module")
def four(place):
    with gradwatch.open(place / "four") as run:
        yield run


def same(text, value):
    return numbers.same([text], [value])


def cells(opened):
    """By rank and step, the value and how many are not finite, from the panel's table."""
    table = opened.table("Ranks")
    rows = zip(table["rank"], table["first_step"], table["value"], table["nonfinite"], strict=True)
    return {
        (int(rank.removeprefix("rank ")), int(step)): (float(value), int(bad))
        for rank, step, value, bad in rows
    }


def truth(run, kind, path):
    found = run.across_ranks(kind, path, "value")
    sites = {
        (rank, int(step)): found.values[row, column]
        for row, rank in enumerate(found.ranks)
        for column, step in enumerate(found.steps)
        if step in made_ranks.steps_of(rank)
    }
    return {at: (value, int(np.isnan(value))) for at, value in sites.items()}


def assert_same_cells(shown, true):
    assert shown.keys() == true.keys()
    for at, (value, bad) in true.items():
        assert same(repr(shown[at][0]), value), at
        assert shown[at][1] == bad


def labels(opened):
    """The ranks of the rows, from top to bottom, with status and severity."""
    return opened.page.eval_on_selector_all(
        ".rank-label",
        "all => all.map(l => [Number(l.dataset.ranks), l.dataset.status, l.dataset.severity])",
    )


def test_the_panel_says_how_many_there_are_and_which_have_stopped_where(visit, ids):
    opened = visit(f"/run/{ids['four']}")
    counts = opened.page.eval_on_selector_all(
        ".rank-states [data-status]", "all => all.map(s => [s.dataset.status, s.dataset.count])"
    )
    assert dict(counts) == {"finished": "3", "crashed": "1", "empty": "1"}
    stopped = opened.page.locator(".rank-stopped li").all_inner_texts()
    assert [re.sub(r" \(.*", "", words) for words in stopped] == [
        f"rank {CRASHED} crashed; its last record is of step {made_ranks.LAST_OF_CRASHED}",
        f"rank {MISSING} has recorded nothing",
    ]
    assert [(rank, status) for rank, status, _ in labels(opened)] == [
        (0, "finished"), (CRASHED, "crashed"), (LATE, "finished"), (SLOW, "finished"),
    ]  # fmt: skip


def test_every_cell_of_every_number_is_the_readers(visit, ids, four):
    opened = visit(f"/run/{ids['four']}")
    assert_same_cells(cells(opened), truth(four, "loss", "loss"))
    opened.page.get_by_label("Number of the ranks").select_option("step seconds")
    opened.settle()
    assert opened.state["of"] == "scalar step_seconds"
    assert_same_cells(cells(opened), truth(four, "scalar", "step_seconds"))


def test_the_slowest_comes_first_in_the_order_of_values(visit, ids):
    opened = visit(f"/run/{ids['four']}?of=scalar+step_seconds")
    assert [rank for rank, _, _ in labels(opened)] == [0, 1, 2, 3]
    opened.page.get_by_label("Order of the ranks").select_option("greatest first")
    opened.settle()
    assert opened.state["order"] == "value"
    assert labels(opened)[0][0] == SLOW


def test_a_cell_under_the_pointer_tells_its_rank_step_and_value(visit, ids, four):
    opened = visit(f"/run/{ids['four']}?from=1&to=61").diagnosed()
    canvas = opened.page.locator(".rank-rows canvas")
    box = canvas.bounding_box()
    # The late rank, at a step when it was there: half a step and half a row inside.
    step = 50
    x = box["width"] * (step - 1 + 0.5) / 60
    canvas.hover(position={"x": x, "y": box["height"] * (LATE + 0.5) / 4})
    readout = opened.page.locator(".readout[data-ranks]")
    assert readout.get_attribute("data-ranks") == str(LATE)
    assert readout.get_attribute("data-first") == str(step)
    steps, values = four.series("loss", "loss", "value", rank=LATE)
    assert same(readout.get_attribute("data-value"), values[steps.tolist().index(step)])


def test_the_band_of_the_loss_is_from_the_least_to_the_greatest_rank(visit, ids, four):
    opened = visit(f"/run/{ids['four']}")
    band = opened.page.locator(".spread[data-number=loss]")
    last = four.across_ranks("loss", "loss", "value").values[:, -1]
    last = last[np.isfinite(last)]
    assert last.size == 3
    for name, true in (("low", last.min()), ("median", np.median(last)), ("high", last.max())):
        assert same(band.get_attribute(f"data-{name}"), true)


def test_the_rank_that_is_chosen_is_the_one_that_is_shown_everywhere(visit, ids, four):
    opened = visit(f"/run/{ids['four']}?kind=output")
    for choice, rank in (("all ranks, merged", "all"), (f"rank {LATE}", LATE), ("rank 0", 0)):
        opened.page.get_by_label("Rank", exact=True).select_option(choice)
        opened.settle()
        assert opened.state["rank"] == str(rank)
        steps, values = four.series("output", "net/a", "l2", rank=rank)
        shown = {first: text for first, text, _ in opened.heatmap()["net/a"] if text}
        assert list(shown) == steps.tolist()
        for step, value in zip(steps.tolist(), values, strict=True):
            # Sums over ranks may be taken in another order each time.
            assert float(shown[step]) == pytest.approx(value, rel=1e-12)
        loss = opened.page.locator(".value[data-number=loss]").get_attribute("data-value")
        last = four.series("loss", "loss", "value", rank=rank)[1][-1]
        assert float(loss) == pytest.approx(last, rel=1e-12)
    opened.page.get_by_label("Rank", exact=True).select_option(f"rank {SLOW}")
    opened.settle()
    opened.page.click(".labels a.name")
    opened.settle()
    assert opened.state["rank"] == str(SLOW)
    table = opened.table("Norms")
    _, values = four.series("output", "net/a", "l2", rank=SLOW)
    for text, value in zip(table["L2 norm"], values, strict=True):
        assert same(text, value)


def test_a_rank_that_does_not_exist_is_refused_in_words(visit, ids):
    opened = visit("/")
    opened.allowed = ("404",)
    opened.go(f"/run/{ids['four']}?rank=7")
    assert "There is no rank 7 in this run. Recorded: 0, 1, 2, 3." in opened.text


def test_a_rank_that_a_finding_names_is_marked(visit, ids, four):
    named = {finding.evidence["rank"] for finding in findings_of(four)}
    assert named == {CRASHED}
    opened = visit(f"/run/{ids['four']}")
    opened.until(lambda: any(severity for *_, severity in labels(opened)))
    assert {rank for rank, _, severity in labels(opened) if severity} == named


def test_a_run_of_one_process_has_neither_panel_nor_chooser(visit, ids):
    opened = visit(f"/run/{ids['one']}?kind=output")
    assert opened.page.locator(".ranks").count() == 0
    assert opened.page.get_by_label("Rank", exact=True).count() == 0
    opened.go(site_route(ids["one"], "output", "net/a"))
    assert opened.page.get_by_label("Rank", exact=True).count() == 0


def test_a_report_has_the_panel_with_the_same_numbers(browser, place, four, tmp_path):
    file = gradwatch.report(place / "four", tmp_path / "report.html")
    with Watched(browser) as opened:
        opened.page.goto(file.as_uri())
        opened.page.wait_for_selector(".rank-rows canvas")
        shown = opened.table("Ranks")
        rows = zip(shown["rank"], shown["first_step"], shown["value"], strict=True)
        true = truth(four, "loss", "loss")
        assert len(shown["rank"]) == len(true)
        for rank, step, value in rows:
            assert same(value, true[int(rank.removeprefix("rank ")), int(step)][0])
        marked = opened.page.eval_on_selector_all(
            ".rank-label", "all => all.filter(l => l.dataset.severity).map(l => l.dataset.ranks)"
        )
        assert marked == [str(CRASHED)]
        assert opened.page.get_by_label("Rank", exact=True).count() == 0
        assert opened.wrong == []


def test_the_ranks_can_be_read_in_the_dark_and_on_a_narrow_screen(visit, ids):
    opened = visit(
        f"/run/{ids['four']}", color_scheme="dark", viewport={"width": 480, "height": 800}
    )
    assert opened.overflow() == 0
    assert len(labels(opened)) == 4
