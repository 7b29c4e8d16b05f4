"""Every page can be used by keys and by screen readers, and read in both themes and on a phone."""

import pytest

from tests.view.axe import violations
from tests.view.browser import made_ranks
from tests.view.browser.test_pages import routes
from tests.view.browser.visiting import Visit, run_ids, site_route
from tests.view.serving import serving

DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.mark.parametrize(
    ("scheme", "size"),
    [
        pytest.param("light", DESK, id="light-desk"),
        pytest.param("dark", PHONE, id="dark-phone", marks=pytest.mark.slow),
        pytest.param("dark", DESK, id="dark-desk", marks=pytest.mark.slow),
        pytest.param("light", PHONE, id="light-phone", marks=pytest.mark.slow),
    ],
)
def test_axe_finds_nothing_on_any_page(visit, ids, scheme, size):
    golden = ids["golden"]
    opened = visit("/", color_scheme=scheme, viewport=size)
    opened.allowed = ("404 (Not Found)",)
    pages = {
        **routes(ids, "golden"),
        "updates": f"/run/{golden}?kind=update&stat=mean",
        "a bad site": site_route(golden, "gradient", "net/block1/conv/kernel"),
        "no such site": site_route(golden, "gradient", "nothing"),
        "no such run": "/run/nothing",
        "one run to compare": f"/compare?runs={golden}",
        "no run to compare": "/compare",
    }
    found = {}
    for name, route in pages.items():
        opened.go(route)
        if name.startswith(("overview", "updates")):
            opened.diagnosed()
        found[name] = violations(opened.page) + ["too wide"] * (opened.overflow() > 0)
    assert found == {name: [] for name in pages}


@pytest.mark.parametrize("scheme", ["dark", pytest.param("light", marks=pytest.mark.slow)])
def test_axe_finds_nothing_in_what_opens(visit, ids, scheme):
    opened = visit(f"/run/{ids['golden']}", color_scheme=scheme).diagnosed()
    opened.heatmap()
    opened.page.get_by_role("button", name="Table of loss and other numbers").click()
    opened.page.locator(".findings details").evaluate_all("all => all.map(one => one.open = true)")
    opened.page.get_by_label("Export the heatmap", exact=True).click()
    assert violations(opened.page) == []
    opened.page.get_by_role("button", name="Keys").click()
    assert violations(opened.page) == []


def test_axe_finds_nothing_on_the_page_of_several_ranks(browser, tmp_path):
    made_ranks.ranks(tmp_path / "four")
    with serving(tmp_path) as server, Visit(browser, server) as opened:
        opened.go(f"/run/{run_ids(server)['four']}").diagnosed()
        assert violations(opened.page) == []


def test_the_tree_shows_that_it_has_the_focus(visit, ids):
    opened = visit(f"/run/{ids['golden']}").diagnosed()
    tree = opened.page.get_by_role("tree")
    active = tree.locator(".label.active")
    outline = "e => getComputedStyle(e).outlineStyle + getComputedStyle(e).outlineWidth"
    assert not active.evaluate(outline).startswith("solid")
    # As by the Tab key: the ring is for those who use keys.
    opened.page.get_by_role("button", name="Keys").focus()
    while tree.evaluate("tree => tree !== document.activeElement"):
        opened.page.keyboard.press("Tab")
    assert tree.evaluate(outline) == "solid2px"
    assert active.evaluate(outline) == "solid2px"
    opened.page.keyboard.press("ArrowDown")
    row = tree.get_attribute("aria-activedescendant")
    assert tree.locator(f"#{row}").get_attribute("aria-selected") == "true"


def test_there_is_a_way_back_from_a_run_that_is_not_there(visit, ids):
    for route in ("/run/nothing", site_route("nothing", "gradient", "a")):
        opened = visit(route)
        opened.allowed = ("404 (Not Found)",)
        assert "There is no such run in this folder" in opened.text
        opened.page.get_by_role("link", name="All runs").click()
        opened.until(lambda opened=opened: opened.page.locator("tr[data-run]").count() == len(ids))


def test_compare_on_the_page_of_a_run_offers_the_others(visit, ids):
    opened = visit(f"/run/{ids['golden']}")
    opened.page.get_by_role("link", name="Compare").click()
    opened.until(lambda: "Compare golden with" in opened.text)
    opened.page.get_by_role("link", name="other", exact=True).click()
    opened.page.wait_for_selector(".compare-rows")
    assert opened.state["runs"] == f"{ids['golden']},{ids['other']}"


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_the_read_out_is_whole_wherever_the_pointer_is(visit, ids, size):
    opened = visit(f"/run/{ids['golden']}", viewport=size).diagnosed()
    canvas = opened.page.locator(".heat-scroll canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    readout = opened.page.locator(".readout")
    widths = set()
    for share in (0.02, 0.5, 0.98):
        for y in (8, 90):
            canvas.hover(position={"x": box["width"] * share, "y": y})
            found = readout.bounding_box()
            widths.add(round(found["width"]))
            assert found["x"] >= 0
            assert found["x"] + found["width"] <= size["width"]
            assert found["y"] >= 0
            assert found["y"] + found["height"] <= size["height"]
    # Only the words decide on its width, not the place.
    assert min(widths) > 120
    assert len(readout.inner_text().splitlines()) <= 4


def test_a_tap_reads_a_value_on_a_phone(visit, ids):
    opened = visit(f"/run/{ids['golden']}", viewport=PHONE, has_touch=True).diagnosed()
    canvas = opened.page.locator(".heat-scroll canvas")
    canvas.tap(position={"x": canvas.bounding_box()["width"] - 2, "y": 8})
    assert int(opened.page.locator(".readout").get_attribute("data-last")) > 235
    opened.page.locator("h1").tap()
    opened.until(lambda: opened.page.locator(".readout").count() == 0)
