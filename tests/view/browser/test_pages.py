"""Every page opens, in light and dark, wide and narrow, and shows what it is about."""

import pytest

from gradwatch.diagnosis import all_rules
from tests.variants import rarely
from tests.view.browser.made import HOSTILE_RUN, HOSTILE_TWIN
from tests.view.browser.visiting import Visit, site_route

WIDE, NARROW = {"width": 1500, "height": 1000}, {"width": 760, "height": 900}


def routes(ids, run):
    path = "net/plain/kernel" if run == HOSTILE_RUN else "net/stem/conv/kernel"
    mine, twin = ids[run], ids[HOSTILE_TWIN if run == HOSTILE_RUN else "other"]
    return {
        "runs": "/",
        "overview": f"/run/{mine}",
        "overview of a layer's search": f"/run/{mine}?q=kernel",
        "site": site_route(mine, "gradient", path),
        "layer": site_route(mine, "gradient", path.rpartition("/")[0]),
        "block": site_route(mine, "gradient", "net"),
        "compare": f"/compare?runs={mine},{twin}",
        "compare by share": f"/compare?runs={twin},{mine}&align=fraction&stat=mean",
        "unknown": "/nothing/of/the/kind?x=y",
    }


@pytest.mark.parametrize(("scheme", "size"), [("light", NARROW), *rarely(("dark", WIDE))])
@pytest.mark.parametrize("run", ["golden", HOSTILE_RUN])
def test_every_page_of_a_run_opens(visit, ids, run, scheme, size):
    opened = visit("/", color_scheme=scheme, viewport=size)
    for name, route in routes(ids, run).items():
        opened.go(route)
        assert opened.page.locator("h1, h2, h3, .compare-runs").count() > 0, name
        assert opened.page.locator(".problem").count() == 0, (name, opened.text)
        assert "gradwatch" in opened.page.title()
        opened.assert_harmless()
    assert opened.page.evaluate("document.documentElement.dataset.theme") == scheme


def test_the_list_tells_how_runs_stand_and_leads_to_them(visit, ids):
    opened = visit("/")
    row = opened.page.locator(f'tr[data-run="{ids["golden"]}"]')
    opened.until(lambda: "error" in row.locator("td.health").inner_text())
    assert "finished" in row.inner_text()
    assert row.locator("td[data-label='Last step']").inner_text() == "240"
    assert row.locator("td[data-label='Last loss'] span").get_attribute("title") == str(2.0 / 240)
    row.get_by_role("link", name="golden").click()
    opened.page.wait_for_selector(".heat-scroll")
    assert opened.page.url.endswith(f"#/run/{ids['golden']}")


def test_the_list_sorts_filters_and_sends_the_chosen_to_be_compared(visit, ids):
    opened = visit("/?sort=name")
    names = opened.page.locator("td.run-name")
    in_order = [HOSTILE_RUN, HOSTILE_TWIN.replace("\u202e", r"\u202e"), "golden", "other"]
    assert names.all_inner_texts() == in_order
    opened.page.get_by_role("button", name="Name").click()
    opened.until(lambda: names.all_inner_texts() == in_order[::-1])
    opened.page.get_by_label("Filter runs by name").fill("GO")
    opened.until(lambda: names.all_inner_texts() == ["golden"])
    opened.page.get_by_label("Filter runs by name").fill("OTH")
    opened.until(lambda: names.all_inner_texts() == ["other"])
    opened.page.get_by_label("Filter runs by name").fill("")
    opened.page.get_by_label("Choose golden").check()
    opened.page.get_by_label("Choose other").check()
    chosen = f"{ids['golden']},{ids['other']}"
    opened.until(lambda: opened.state.get("chosen") == chosen)
    opened.page.get_by_role("button", name="Compare 2 runs").click()
    opened.page.wait_for_selector(".compare-rows")
    assert opened.state["runs"] == chosen


def test_the_theme_can_be_chosen_and_stays_chosen(visit, ids):
    opened = visit(f"/run/{ids['golden']}", color_scheme="light")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = opened.page.evaluate(paper)
    opened.page.get_by_role("button", name="Switch to the dark theme").click()
    assert opened.page.evaluate(paper) != light
    opened.page.reload()
    opened.settle()
    assert opened.page.evaluate("document.documentElement.dataset.theme") == "dark"
    opened.page.get_by_role("button", name="Switch to the light theme").click()
    assert opened.page.evaluate(paper) == light


def test_findings_come_first_and_lead_to_their_site(visit, ids):
    opened = visit(f"/run/{ids['golden']}").diagnosed()
    card = opened.page.locator("article.finding").first
    assert "NaN in step 100, first in the loss." in card.inner_text()
    assert card.bounding_box()["y"] < opened.page.locator(".heat-scroll").bounding_box()["y"]
    card.get_by_role("link", name="net/block2/dense/bias").click()
    opened.page.wait_for_selector(".site-findings li.error")
    assert "since step 100" in opened.page.inner_text(".site-findings")


def test_a_finding_opens_what_its_rule_looks_for(visit, ids):
    opened = visit(f"/run/{ids['golden']}").diagnosed()
    page = opened.page.locator("article.finding .rule-page").first
    words = all_rules()["non-finite"].about
    assert not page.get_by_text(words).is_visible()
    page.get_by_text("non-finite", exact=True).click()
    page.get_by_text(words).wait_for()
    assert 'gradwatch.silence("non-finite"' in page.inner_text()


def test_a_run_or_a_site_that_is_not_there_is_said(visit, ids):
    opened = visit("/")
    opened.allowed = ("404 (Not Found)", "400 (Bad Request)")
    opened.go("/run/0123456789abcdef")
    assert opened.page.locator(".no-run").count() == 1
    opened.go(site_route(ids["golden"], "gradient", "net/nothing"))
    assert "net/nothing" in opened.page.inner_text(".problem")
    opened.go(f"/compare?runs={ids['golden']}")
    assert "Compare golden with" in opened.text


def test_without_a_session_the_page_says_how_to_get_one(browser, server, ids):
    opened = Visit(browser, server)
    opened.page.context.clear_cookies()
    opened.allowed = ("401 (Unauthorized)",)
    for route in ("/", f"/run/{ids['golden']}"):
        opened.page.goto(f"{server.address}#{route}")
        opened.page.reload()
        said = opened.page.locator(".problem, .no-run")
        said.wait_for()
        assert "Open the link that `gradwatch view` printed" in said.inner_text()
        assert "net/" not in opened.text
    opened.page.goto(server.link)
    opened.page.wait_for_selector("table.runs")
    assert "token" not in opened.page.url
    opened.assert_harmless()
    opened.close()
