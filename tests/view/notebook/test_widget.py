"""The widget: what it sends by itself, what it answers, and when its thread ends."""

import gc
import json
import sys
import threading
import time
import weakref
from base64 import b64decode

import numpy as np
import pytest

import gradwatch
from gradwatch.core import Kind, Reading, Site, Summary
from gradwatch.store.writer import StoreWriter
from gradwatch.view.notebook.widget import live_overview
from gradwatch.view.web import Server
from tests.cli.support import PATHS, STEPS, make_run, write
from tests.view.notebook.kernel import wired
from tests.view.serving import PATIENCE


@pytest.fixture
def shown(monkeypatch):
    """Has widgets made, and closes them."""
    wired(monkeypatch)
    made = []

    def show(what, **options):
        made.append(what.widget(**options))
        return made[-1]

    yield show
    for widget in made:
        widget.close()


def until(is_so):
    deadline = time.monotonic() + PATIENCE
    while not (found := is_so()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def overview(widget, is_so=lambda overview: True):
    """The overview that it has sent, as soon as it is so."""

    def found():
        sent = json.loads(widget.overview or "null")
        return sent if sent is not None and is_so(sent) else None

    return until(found)


def threads():
    return [each for each in threading.enumerate() if each.name == "gradwatch widget"]


def ask(widget, name, **parameters):
    """The status and the answer to a request of the page."""
    while not widget.comm.sent.empty():
        widget.comm.sent.get()
    widget.comm.receive({"id": "x-1", "name": name, "parameters": parameters})
    messages = [widget.comm.sent.get() for _ in range(widget.comm.sent.qsize())]
    (answer,) = [each["content"] for each in messages if each.get("method") == "custom"]
    assert answer["id"] == "x-1"
    return answer["status"], answer["answer"]


def test_the_overview_is_what_the_viewers_server_answers(shown, tmp_path):
    make_run(tmp_path / "a")
    run = gradwatch.open(tmp_path / "a")
    widget = shown(run)
    sent = overview(widget)
    server = Server(run, "a")
    try:
        (id,) = server.library.names

        def answer(name, **parameters):
            status, found = server.answer(name, {n: [str(v)] for n, v in parameters.items()})
            assert status == 200
            return json.loads(json.dumps(found))

        assert sent["run"] == answer("run", run=id)
        assert sent["numbers"] == answer("numbers", run=id, columns=240)
        assert sent["curves"] == answer("curves", runs=id, columns=240)
        trees = {tree["kind"]: tree for tree in json.loads(widget.trees)}
        assert {h["kind"] for h in sent["heatmaps"]} == set(trees) == {
            "gradient", "weight", "update",
        }  # fmt: skip
        for heatmap in sent["heatmaps"]:
            tree = trees[heatmap["kind"]]
            assert tree == answer("tree", run=id, kind=heatmap["kind"])
            assert heatmap["rows"] == list(range(len(tree["label"])))
            rows = ",".join(map(str, heatmap["rows"]))
            query = {name: heatmap[name] for name in ("kind", "statistic", "revision")}
            assert heatmap == answer("heatmap", run=id, rows=rows, columns=240, **query)
        # The same goes for what the page asks for.
        query = {"run": id, "kind": "gradient", "path": PATHS[0], "columns": 600}
        assert json.loads(json.dumps(ask(widget, "series", **query)[1])) == answer(
            "series", **query
        )
        assert ask(widget, "series", **{**query, "run": "../a"})[0] == 404
        assert ask(widget, "nothing") == (404, "There is nothing at this path.")
        assert ask(widget, "heatmap", run=id)[0] == 400
    finally:
        server.diagnosis.close()
    assert run.status == "finished"  # the user's own is not closed
    assert run.series("gradient", PATHS[0])[0].tolist() == list(STEPS)


def test_messages_of_another_form_are_ignored(shown, tmp_path):
    make_run(tmp_path / "a")
    widget = shown(gradwatch.open(tmp_path / "a"))
    overview(widget)
    for content in (None, 3, "run", [], {"id": 1}, {"name": "run", "parameters": "run"}):
        widget.comm.receive(content)
    assert ask(widget, "run", run={"a": [1]})[0] == 404


def test_it_follows_a_run_and_its_thread_ends_with_the_run(shown, tmp_path):
    truth = make_run(tmp_path / "whole")
    writer = write(tmp_path / "a", truth, last=10)
    widget = shown(gradwatch.open(tmp_path / "a"))
    assert overview(widget)["run"]["last_step"] == 10
    assert threads()
    for step in range(11, 21):
        row = Summary.of(truth[Site(Kind.LOSS, "loss")][step]).pack()[None]
        writer.write(Reading(step, 1, 1e9 + step, [Site(Kind.LOSS, "loss")], Summary.unpack(row)))
    overview(widget, lambda sent: sent["run"]["last_step"] == 20)
    writer.close()
    overview(widget, lambda sent: sent["run"]["status"] == "finished")
    until(lambda: not threads())
    # What the page asks for is still answered, from the files.
    query = {"kind": "loss", "path": "loss", "columns": 50}
    run = json.loads(widget.overview)["run"]["id"]
    assert ask(widget, "series", run=run, **query)[1]["last"][-1] == 20


def test_a_monitor_shows_its_run_as_soon_as_there_is_one_and_is_not_kept_alive(shown, tmp_path):
    make_run(tmp_path / "a")  # another training's: this one goes to a-2
    monitor = gradwatch.Monitor(tmp_path / "a", every=1, sinks=[gradwatch.Store()])
    widget = shown(monitor)
    until(lambda: "no run yet" in widget.said)
    assert ask(widget, "run")[0] == 404
    for step in range(1, 6):
        monitor.record(gradients={"net/kernel": np.array([3.0, 4.0]) * step}, loss=1.0 / step)
    sent = overview(widget, lambda sent: sent["run"]["last_step"] == 5)
    assert (sent["run"]["name"], sent["run"]["status"], widget.said) == ("a-2", "live", "")
    monitor.close()
    overview(widget, lambda sent: sent["run"]["status"] == "finished")
    assert threads()  # it may be continued
    kept = weakref.ref(monitor)
    del monitor
    gc.collect()
    assert kept() is None
    until(lambda: not threads())


def test_closing_it_ends_the_thread_and_a_closed_one_stays_closed(shown, tmp_path):
    writer = write(tmp_path / "a", make_run(tmp_path / "whole"), last=10)
    widget = shown(gradwatch.open(tmp_path / "a"))
    sent = overview(widget)
    widget.close()
    assert not threads()
    widget._feed.start()
    assert not threads()
    assert widget._feed.answer("run", {"run": sent["run"]["id"]})[0] == 404
    writer.close()


def test_a_cell_of_another_statistic_is_sent_from_when_it_was_asked_for(shown, tmp_path):
    truth = make_run(tmp_path / "whole")
    writer = write(tmp_path / "a", truth, last=10)
    widget = shown(gradwatch.open(tmp_path / "a"))
    sent = overview(widget)
    assert all(each["statistic"] != "mean" for each in sent["heatmaps"])
    query = {"run": sent["run"]["id"], "kind": "gradient", "statistic": "mean", "columns": 100}
    tree = json.loads(widget.trees)[0]
    ask(widget, "heatmap", rows="0,1", revision=tree["revision"], **query)
    sent = overview(widget, lambda sent: sent["heatmaps"][0]["statistic"] == "mean")
    node = tree["label"].index("kernel")
    path = next(path for path in PATHS if path.endswith("kernel"))
    values = np.frombuffer(b64decode(sent["heatmaps"][0]["values"])).reshape(-1, 10)[node]
    means = [truth[Site(Kind.GRADIENT, path)][step].mean() for step in range(1, 11)]
    np.testing.assert_allclose(values, means, rtol=1e-6)
    writer.close()


def test_a_large_network_is_sent_in_part(shown, tmp_path):
    paths = [f"net/block{i // 40}/layer{i}/kernel" for i in range(4000)]
    sites = [Site(kind, path) for path in paths for kind in (Kind.GRADIENT, Kind.WEIGHT)]
    writer = StoreWriter(tmp_path / "a")
    row = Summary.of([3.0, 4.0]).pack()
    for step in range(1, 61):
        rows = Summary.unpack(np.tile(row, (len(sites), 1)))
        writer.write(Reading(step, 1, 1e9 + step, sites, rows))
    writer.close()
    widget = shown(gradwatch.open(tmp_path / "a"))
    sent = overview(widget)
    (heatmap, *_) = sent["heatmaps"]
    assert 0 < len(heatmap["rows"]) <= live_overview.MAX_CELLS // live_overview.MIN_COLUMNS
    cells = sum(len(h["rows"]) * len(h["first"]) for h in sent["heatmaps"])
    assert cells <= live_overview.MAX_CELLS
    # Jupyter drops what is more than 1 MB a second.
    assert len(widget.overview) < 1_000_000
    assert len(widget.trees) < 3_000_000


def test_where_there_is_no_kernel_a_notebook_has_the_run_as_html(shown, tmp_path):
    make_run(tmp_path / "a")
    run = gradwatch.open(tmp_path / "a")
    data, _ = shown(run)._repr_mimebundle_()
    assert data["text/html"] == run._repr_html_()
    assert "application/vnd.jupyter.widget-view+json" in data
    monitor = gradwatch.Monitor(tmp_path / "b", sinks=[gradwatch.Store()])
    data, _ = shown(monitor)._repr_mimebundle_()
    assert "no run yet" in data["text/html"]
    monitor.close()


def test_without_anywidget_the_run_is_shown_as_html(tmp_path, monkeypatch):
    make_run(tmp_path / "a")
    run = gradwatch.open(tmp_path / "a")
    monkeypatch.delitem(sys.modules, "gradwatch.view.notebook.widget.run_widget", raising=False)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.warns(gradwatch.GradwatchWarning, match=r"pip install 'gradwatch\[notebook\]'"):
        widget = run.widget()
    assert widget._repr_html_() == run._repr_html_()
    widget.close()
    monitor = gradwatch.Monitor(tmp_path / "b", every=1, sinks=[gradwatch.Store()])
    with pytest.warns(gradwatch.GradwatchWarning, match="anywidget"):
        widget = monitor.widget()
    assert "no run yet" in widget._repr_html_()
    monitor.record(gradients={"net/kernel": np.array([3.0, 4.0])})
    monitor.close()
    assert "<b>b</b>" in widget._repr_html_()


@pytest.mark.parametrize("height", [0, 1e3, "tall", True])
def test_a_height_that_is_none_is_refused(height, tmp_path):
    make_run(tmp_path / "a")
    with pytest.raises(ValueError, match=r"height must be 200 to 5000 pixels\. Received"):
        gradwatch.open(tmp_path / "a").widget(height=height)
