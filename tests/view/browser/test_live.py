"""A run that goes on grows on the page by itself; a server that is gone is said to be."""

from contextlib import ExitStack

import numpy as np
import pytest

import gradwatch
from tests.view.browser.numbers import shown_series
from tests.view.browser.visiting import Visit, run_ids, site_route, writing
from tests.view.serving import PATIENCE, port_for_twice, serving


@pytest.fixture
def live(tmp_path, browser):
    """A run that another process writes, and a visit of its server."""
    with ExitStack() as stack:
        place = tmp_path / "runs"
        write = stack.enter_context(writing(place / "live"))
        write(5)
        server = stack.enter_context(serving(place))
        opened = stack.enter_context(Visit(browser, server))
        yield opened, write, run_ids(server)["live"], place / "live"
        opened.assert_harmless()


def last_step(opened):
    return max(first for first, _, _ in opened.heatmap()["net/b/bias"])


def test_an_overview_grows_and_asks_only_for_what_is_new(live):
    opened, write, run, place = live
    opened.go(f"/run/{run}")
    assert opened.page.locator(".run-head .status").inner_text() == "live"
    opened.page.evaluate("window.mine = true")
    assert last_step(opened) == 5
    for end in (9, 12):
        before = len(opened.requests)
        write(end)
        opened.until(lambda end=end: last_step(opened) == end)
        opened.settle()
        asked = opened.requests[before:]
        assert not [url for url in asked if url.endswith((".js", ".css", "/")) or "/tree" in url]
        cells = [url for url in asked if "/api/heatmap" in url or "/api/numbers" in url]
        assert cells
        assert all("since=" in url and "width=1" in url for url in cells), cells
    assert opened.page.evaluate("window.mine")
    with gradwatch.open(place) as reader:
        shown = opened.heatmap()
        for site in reader.sites("gradient"):
            values = shown_series(reader, "gradient", site.path)[1]
            texts = [float(text) for _, text, _ in shown[site.path]]
            assert np.array_equal(texts, values, equal_nan=True)
    loss = opened.page.locator('[data-number="loss"]')
    opened.page.mouse.move(0, 0)
    # Which may have been asked for before the last step was there, and then is again.
    opened.until(lambda: float(loss.get_attribute("data-value")) == np.float32(1 / 12))


def test_a_site_grows_and_asks_only_for_what_is_new(live):
    opened, write, run, place = live
    opened.go(site_route(run, "gradient", "net/b/kernel"))
    before = len(opened.asked("series"))
    write(9)
    opened.until(lambda: opened.table("Norms")["last_step"][-1] == "9")
    opened.settle()
    grown = opened.asked("series")[before:]
    assert grown
    assert all(each["since"] == "5" or int(each["since"]) > 5 for each in grown)
    with gradwatch.open(place) as reader:
        values = shown_series(reader, "gradient", "net/b/kernel")[1]
    shown = [float(text) for text in opened.table("Norms")["L2 norm"]]
    assert np.array_equal(shown, values, equal_nan=True)


def test_a_run_that_ends_becomes_finished(live):
    opened, write, run, _ = live
    opened.go(f"/run/{run}")
    write.process.stdin.close()
    write.process.wait(PATIENCE)
    status = opened.page.locator(".run-head .status")
    opened.until(lambda: status.inner_text() == "finished")


def test_a_run_whose_process_is_killed_becomes_crashed_and_keeps_its_numbers(live):
    opened, write, run, _ = live
    opened.go(f"/run/{run}")
    write.process.kill()
    write.process.wait(PATIENCE)
    status = opened.page.locator(".run-head .status")
    opened.until(lambda: status.inner_text() == "crashed")
    assert last_step(opened) == 5
    opened.go("/")
    opened.until(lambda: "crashed" in opened.page.inner_text("table.runs"))


def test_a_run_that_appears_is_listed(live):
    opened, _, _, place = live
    opened.go("/")
    with writing(place.parent / "later") as write:
        write(1)
        opened.until(lambda: opened.page.get_by_role("link", name="later").count() == 1)


def test_an_empty_folder_shows_its_first_run_without_a_reload(tmp_path, browser):
    with serving(tmp_path) as server, Visit(browser, server) as opened:
        opened.go("/")
        assert "No runs yet" in opened.text
        opened.page.evaluate("window.mine = true")
        with writing(tmp_path / "first") as write:
            write(3)
            opened.until(lambda: opened.page.get_by_role("link", name="first").count() == 1)
        assert opened.page.evaluate("window.mine")
        opened.assert_harmless()


def test_a_server_that_stops_is_said_and_one_that_comes_back_goes_on(tmp_path, browser):
    place = tmp_path / "runs"
    with writing(place / "live") as write:
        write(5)
        with serving(place, port=port_for_twice()) as server:
            opened = Visit(browser, server)
            opened.go(f"/run/{run_ids(server)['live']}")
            connection = opened.page.locator(".connection")
            opened.until(lambda: connection.inner_text() == "Connected")
        # Depending on what the server was about to do when it stopped.
        opened.allowed = ("net::ERR_CONNECTION_", "net::ERR_EMPTY_RESPONSE", "ERR_INCOMPLETE_CHUNK")
        opened.until(lambda: "Connection lost" in connection.inner_text())
        assert "Is `gradwatch view` still running?" in connection.inner_text()
        # What was shown stays.
        assert last_step(opened) == 5
        write(8)
        with serving(place, port=server.port, logins=server.logins):
            opened.until(lambda: connection.inner_text() == "Connected")
            opened.until(lambda: last_step(opened) == 8)
            opened.assert_harmless()
            opened.close()
