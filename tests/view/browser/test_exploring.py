"""Zooming, searching, folding and keys; all of it is in the address."""

import pytest

from tests.view.browser import made
from tests.view.browser.visiting import site_route

BLOCKS = ["net", "net/stem/conv", "net/block1/dense", "net/block2/dense", "net/head"]


@pytest.fixture
def overview(visit, ids):
    def opened(query="", **options):
        return visit(f"/run/{ids['golden']}{query}", **options).diagnosed()

    return opened


def plot(opened):
    return opened.page.locator(".heat-scroll canvas").bounding_box()


def steps_in_sight(opened):
    return [first for first, _, _ in opened.heatmap()["net"]]


def assert_is_on(opened, path):
    """That a row is the active one, as soon as the page has drawn it."""
    active = opened.page.locator(".label.active .name")
    opened.until(lambda: active.get_attribute("data-path") == path)


def test_kind_and_statistic_can_be_chosen_and_stay_in_the_address(overview):
    opened = overview()
    opened.page.get_by_label("Kind").select_option("weight")
    opened.settle()
    opened.page.get_by_label("Statistic").select_option("mean")
    opened.settle()
    assert (opened.state["kind"], opened.state["stat"]) == ("weight", "mean")
    before = opened.heatmap()
    assert opened.asked("heatmap")[-1]["statistic"] == "mean"
    opened.page.reload()
    opened.settle()
    assert opened.heatmap() == before
    assert "weight: mean" in opened.page.inner_text(".legend")


def test_dragging_zooms_and_the_address_shows_the_same_again(overview, browser, server):
    opened = overview()
    box = plot(opened)
    y = box["y"] + 30
    opened.page.mouse.move(box["x"] + box["width"] * 0.25, y)
    opened.page.mouse.down()
    opened.page.mouse.move(box["x"] + box["width"] * 0.5, y, steps=4)
    opened.page.mouse.up()
    opened.until(lambda: "from" in opened.state)
    opened.settle()
    first, end = int(opened.state["from"]), int(opened.state["to"])
    assert (first, end) == (61, 121)
    shown = steps_in_sight(opened)
    assert shown == list(range(first, end))
    address = opened.page.url
    opened.page.goto("about:blank")
    opened.page.goto(address)
    opened.settle()
    assert steps_in_sight(opened) == shown
    opened.page.get_by_role("button", name="steps 61").click()
    opened.until(lambda: "from" not in opened.state)
    opened.settle()
    assert steps_in_sight(opened) == list(made.STEPS)


def test_keys_and_the_wheel_zoom_and_move(overview):
    opened = overview("?from=101&to=141")
    opened.page.keyboard.press(".")
    opened.until(lambda: opened.state["from"] == "109")
    opened.page.keyboard.press("-")
    opened.until(lambda: int(opened.state["to"]) - int(opened.state["from"]) > 60)
    opened.page.locator(".axis-plot").hover()
    opened.page.mouse.wheel(0, -300)
    opened.until(lambda: int(opened.state["to"]) - int(opened.state["from"]) < 30)
    opened.page.keyboard.press("0")
    opened.until(lambda: "from" not in opened.state)


def test_the_steps_of_a_finding_can_be_shown(overview):
    opened = overview()
    opened.page.get_by_role("button", name="steps 100 – 109").click()  # noqa: RUF001
    opened.until(lambda: opened.state.get("from") == "76" and opened.state.get("to") == "124")


def test_the_search_finds_paths_by_words_that_they_contain(overview, golden):
    opened = overview()
    paths = [site.path for site in golden.sites("gradient")]
    search = opened.page.locator("#search")
    opened.page.keyboard.press("/")
    assert search.evaluate("box => box === document.activeElement")
    opened.page.keyboard.type("KERN bloc")
    true = [path for path in paths if "kern" in path and "bloc" in path]
    opened.until(lambda: opened.labels() == true)
    assert opened.state["q"] == "KERN bloc"
    opened.page.reload()
    opened.settle()
    assert opened.labels() == true
    search.fill("!bias")
    opened.until(lambda: opened.labels() == [path for path in paths if "bias" not in path])
    search.fill("block*/kernel")
    opened.until(lambda: opened.labels() == true)
    search.fill("nothing-like-it")
    opened.until(lambda: "No path contains this" in opened.text)
    search.press("Escape")
    opened.until(lambda: opened.labels()[0] == "net")
    assert "q" not in opened.state


def test_blocks_close_and_open_and_stay_so(overview):
    opened = overview()
    everything = opened.labels()
    opened.page.get_by_role("button", name="Close all").click()
    opened.until(lambda: opened.labels() == ["net"])
    opened.page.get_by_role("button", name="Open net", exact=True).click()
    opened.until(lambda: opened.labels() == BLOCKS)
    opened.page.reload()
    opened.settle()
    assert opened.labels() == BLOCKS
    # The same blocks of another kind.
    opened.page.get_by_label("Kind").select_option("weight")
    opened.until(lambda: opened.labels() == BLOCKS and opened.state["kind"] == "weight")
    opened.page.get_by_role("button", name="Open all").click()
    opened.until(lambda: opened.labels() == everything)


def test_keys_move_through_the_rows_and_open_their_pages(overview, golden):
    opened = overview()
    press = opened.page.keyboard.press
    assert_is_on(opened, "net")
    press("j")
    press("ArrowDown")
    assert_is_on(opened, "net/stem/conv/kernel")
    press("k")
    press("ArrowLeft")
    opened.until(lambda: "net/stem/conv/kernel" not in opened.labels())
    assert_is_on(opened, "net/stem/conv")
    press("ArrowRight")
    opened.until(lambda: "net/stem/conv/kernel" in opened.labels())
    press("End")
    assert_is_on(opened, "net/head/bias")
    press("Shift+ArrowLeft")
    readout = opened.page.locator('.readout[data-path="net/head/bias"]')
    assert readout.get_attribute("data-first") == "240"
    true = golden.series("gradient", "net/head/bias")[1][-1]
    assert float(readout.get_attribute("data-value")) == true
    press("Escape")
    opened.until(lambda: readout.count() == 0)
    press("Enter")
    opened.page.wait_for_selector(".site-steps")
    opened.until(lambda: opened.state == {"kind": "gradient", "path": "net/head/bias"})
    press("[")
    opened.until(lambda: opened.state["path"] == "net/head/kernel")
    opened.page.go_back()
    opened.page.go_back()
    opened.page.wait_for_selector(".heat-scroll")


def test_keys_that_follow_at_once_undo_nothing_of_each_other(overview):
    opened = overview()
    opened.page.get_by_role("button", name="Close all").click()
    opened.until(lambda: opened.labels() == ["net"])
    # Sooner after each other than the page is painted.
    opened.page.evaluate("""async () => {
        for (const key of ["ArrowRight", "End"]) {
            window.dispatchEvent(new KeyboardEvent("keydown", { key }));
            for (let turn = 0; turn < 20; turn++) await Promise.resolve();
        }
    }""")
    opened.settle()
    assert opened.labels() == BLOCKS
    assert_is_on(opened, "net/head")


def test_a_key_is_heard_as_soon_as_there_is_something_to_see(visit, ids):
    opened = visit("/")
    # Sooner than the page is painted: when the element has just been made.
    opened.page.evaluate("""() => {
        new MutationObserver((_, observer) => {
            if (!document.querySelector(".site-steps")) return;
            observer.disconnect();
            window.dispatchEvent(new KeyboardEvent("keydown", { key: "[" }));
        }).observe(document.body, { childList: true, subtree: true });
    }""")
    route = site_route(ids["golden"], "gradient", "net/head/bias")
    opened.page.evaluate("(route) => { location.hash = route }", route)
    opened.until(lambda: opened.state.get("path") == "net/head/kernel")
    opened.settle()


def test_the_list_of_keys_opens_and_closes(overview):
    opened = overview()
    dialog = opened.page.get_by_role("dialog", name="Keys")
    opened.page.keyboard.press("?")
    dialog.wait_for()
    assert "zoom in time" in dialog.inner_text()
    opened.page.keyboard.press("Escape")
    opened.until(lambda: dialog.count() == 0)
    # Drawn first, and then heard: keys go to the page again after that.
    opened.page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
    )
    opened.page.keyboard.press("j")
    assert_is_on(opened, "net/stem/conv")


def test_a_site_keeps_its_steps_and_scales_in_the_address(visit, ids):
    route = f"/run/{ids['golden']}/site?kind=gradient&path=net/head/bias"
    opened = visit(f"{route}&from=21&to=60")
    assert opened.table("Norms")["first_step"] == [str(step) for step in range(21, 61)]
    opened.page.get_by_role("group", name="Scale of Norms").get_by_text("linear").click()
    opened.until(lambda: opened.state.get("scales") == "norms.linear")
    opened.page.reload()
    opened.settle()
    switch = opened.page.get_by_role("group", name="Scale of Norms").get_by_text("linear")
    assert switch.get_attribute("aria-pressed") == "true"
    opened.page.get_by_role("button", name="Show the whole run").click()
    opened.settle()
    assert len(opened.table("Norms")["first_step"]) == 240


def test_a_comparison_keeps_what_is_chosen_in_the_address(visit, ids):
    opened = visit(f"/compare?runs={ids['golden']},{ids['other']}")
    page = opened.page
    page.get_by_label("Kind").select_option("weight")
    page.get_by_label("Statistic").select_option("mean")
    page.get_by_label("Only what this pattern selects").fill("head/*")
    opened.until(lambda: opened.state.get("q") == "head/*")
    opened.settle()
    assert set(opened.table("Difference by layer")["path"]) == {
        "model", "net/head", "net/head/kernel", "net/head/bias",
    }  # fmt: skip
    page.get_by_role("button", name="net/head", exact=True).click()
    opened.until(lambda: opened.state.get("path") == "net/head")
    page.reload()
    opened.settle()
    assert opened.state["path"] == "net/head"
    assert opened.chart("net/head").count() == 1
