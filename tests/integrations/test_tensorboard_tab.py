"""The tab in a real TensorBoard, in a real browser; and what it answers without one."""

import json
import os
import re
import socket
import subprocess
import sys
from contextlib import closing, contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest

import gradwatch
from gradwatch.integrations.tensorboard_tab import GradwatchPlugin
from tests.view.chromium import Watched, chromium
from tests.view.serving import PATIENCE


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("tab") / "runs"
    sinks = [gradwatch.Store(), gradwatch.TensorBoard()]
    with gradwatch.Monitor(place / "a", every=1, sinks=sinks) as monitor:
        for step in range(1, 31):
            bad = np.nan if step == 20 else 4.0
            monitor.record(gradients={"net/dense/kernel": np.array([3.0, bad])}, loss=1.0 / step)
    return place


# TensorBoard finds the tab of an installed gradwatch; here it is that of the tree.
START = """
import sys
from tensorboard import default, main
from gradwatch.integrations.tensorboard_tab import GradwatchPlugin
found = [p for p in default.get_plugins() if getattr(p, "plugin_name", "") != "gradwatch"]
default.get_plugins = lambda: [*found, GradwatchPlugin]
sys.argv[0] = "tensorboard"
main.run_main()
"""


@contextmanager
def tensorboard(logdir):
    """A TensorBoard of its own, and its address."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    command = ["--logdir", str(logdir), "--port", str(port), "--host", "127.0.0.1"]
    with subprocess.Popen(
        [sys.executable, "-c", START, *command, "--load_fast=false"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    ) as process:
        try:
            said = []
            while "Press CTRL+C" not in (line := process.stderr.readline()):
                said.append(line)
                assert process.poll() is None, "".join(said)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def get(address, path, **headers):
    with urlopen(Request(f"{address}{path}", headers=headers), timeout=PATIENCE) as answer:
        return answer.headers, answer.read()


@pytest.mark.slow
def test_the_tab_shows_the_overview_the_findings_and_a_tensor(runs):
    with tensorboard(runs) as address, chromium() as browser, Watched(browser) as window:
        listing = json.loads(get(address, "/data/plugins_listing")[1])
        assert listing["gradwatch"]["enabled"]
        page = window.page
        page.goto(f"{address}/#gradwatch")
        tab = page.frame_locator("iframe").frame_locator("iframe[title=gradwatch]")
        tab.get_by_role("link", name="a", exact=True).first.click()
        tab.get_by_text(
            re.compile("NaN in step 20, first in gradient net/dense/kernel")
        ).first.wait_for()
        tab.locator(".heatmap, canvas").first.wait_for()
        assert page.url.startswith(address)
        assert {each.split("/")[2] for each in window.requests if each.startswith("http")} <= {
            address.removeprefix("http://"),
            "fonts.googleapis.com",
        }
        if os.environ.get("GRADWATCH_SCREENSHOTS"):
            page.screenshot(path=Path(os.environ["GRADWATCH_SCREENSHOTS"], "tensorboard.png"))
        base = f"{address}/data/plugin/gradwatch"
        (run,) = json.loads(get(base, "/api/runs")[1])["runs"]
        facts = json.loads(get(base, f"/api/run?run={run['id']}")[1])
        assert facts["last_step"] == 30
        headers, _ = get(base, "/page.html")
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-frame-options"] == "SAMEORIGIN"
        for path in ("/api/run?run=../../etc/passwd", "/api/nothing", "/../../etc/passwd"):
            with pytest.raises(HTTPError) as refused:
                get(base, path)
            with refused.value:  # It holds the connection.
                assert refused.value.code in (400, 404)


def asked(plugin, path, query="", **environ):
    """The status, headers and body of an answer."""
    app = plugin.get_plugin_apps()["/api/*"]
    given = {"PATH_INFO": f"/data/plugin/gradwatch/api/{path}", "QUERY_STRING": query, **environ}
    started = []
    body = app(given, lambda status, headers: started.append((status, dict(headers))))
    return (*started[0], body)


@pytest.fixture
def plugin(runs):
    plugin = GradwatchPlugin(SimpleNamespace(logdir=str(runs)))
    yield plugin
    if plugin._server is not None:
        plugin._server.close()


def test_it_answers_what_the_viewer_answers(plugin, runs):
    _, _, (body,) = asked(plugin, "runs")
    (run,) = json.loads(body)["runs"]
    query = f"run={run['id']}&kind=gradient&path=net/dense/kernel&statistic=l2&columns=50"
    status, headers, (body,) = asked(plugin, "series", query)
    assert (status, headers["content-type"]) == ("200 OK", "application/json")
    values = plugin._server.answer(
        "series", {n: [v] for n, v in (pair.split("=") for pair in query.split("&"))}
    )[1]
    assert json.loads(body) == json.loads(json.dumps(values))
    status, _, (body,) = asked(plugin, "series", "run=nothing")
    assert status.startswith("404")
    assert "error" in json.loads(body)


def test_open_pages_are_told_of_changes_until_they_are_closed(plugin):
    status, headers, events = asked(plugin, "events")
    assert (status, headers["content-type"]) == ("200 OK", "text/event-stream")
    assert next(events) == b": heartbeat\n\n"
    plugin._server.hub.publish(runs=["x"])
    told = next(line for line in events if b"data" in line)
    assert json.loads(told.removeprefix(b"data: "))["runs"] == ["x"]
    events.close()
    assert not plugin._server.hub.has_listeners.is_set()


@pytest.mark.parametrize("logdir", ["", "nowhere", "gs://bucket/runs", "."])
def test_without_runs_there_is_no_tab(logdir, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert not GradwatchPlugin(SimpleNamespace(logdir=logdir)).is_active()


def test_a_run_by_itself_is_a_tab_too(runs):
    plugin = GradwatchPlugin(SimpleNamespace(logdir=str(runs / "a")))
    assert plugin.is_active()
    _, _, (body,) = asked(plugin, "runs")
    assert [run["name"] for run in json.loads(body)["runs"]] == ["a"]
    plugin._server.close()


def test_the_package_says_where_tensorboard_finds_it():
    names = {e.name: e.value for e in entry_points(group="tensorboard_plugins")}
    assert names["gradwatch"] == "gradwatch.integrations.tensorboard_tab:GradwatchPlugin"
