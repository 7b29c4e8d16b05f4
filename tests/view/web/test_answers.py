"""Every request of the contract, answered as the data says."""

import gzip
import json
from urllib.parse import urlencode

import pytest

import gradwatch
from gradwatch.core import Kind, Site
from gradwatch.view import data
from gradwatch.view.data import RunView, Window
from tests.store.recorded import Recorder
from tests.view.data.made import doubles, recorder, truth
from tests.view.web.served import asking


@pytest.fixture(scope="module")
def shown(asker, place):
    return RunView(gradwatch.open(place / "a"), asker.ids[0], "a")


def requests(run, revision):
    """One good request of each name."""
    site = {"kind": "gradient", "path": "net/block1"}
    return {
        "runs": {},
        "run": {"run": run},
        "tree": {"run": run, "kind": "gradient"},
        "heatmap": {
            "run": run,
            "kind": "gradient",
            "statistic": "l2",
            "revision": revision,
            "rows": "0,1,2",
            "columns": 9,
        },
        "numbers": {"run": run, "columns": 9},
        "curves": {"runs": run, "columns": 9},
        "ranks": {"run": run, "kind": "loss", "path": "loss", "rows": 9, "columns": 9},
        "series": {"run": run, **site, "columns": 9},
        "distribution": {"run": run, **site, "columns": 9},
        "compare": {
            "runs": f"{run},{run}",
            "kind": "gradient",
            "statistic": "l2",
            "align": "step",
            "pattern": "",
            "columns": 9,
        },
        "compare-series": {
            "runs": f"{run},{run}",
            **site,
            "statistic": "l2",
            "align": "fraction",
            "columns": 9,
        },
    }


@pytest.fixture
def good(asker, shown):
    return requests(asker.ids[0], shown.tree("gradient").revision)


def test_answers_are_what_the_data_says(asker, shown, good):
    path = "net/block1"
    pair = [shown, shown]
    true = {
        "tree": data.tree(shown, "gradient"),
        "heatmap": data.heatmap(shown, "gradient", "l2", [0, 1, 2], Window(9)),
        "numbers": data.numbers(shown, Window(9)),
        "curves": data.curves([shown], 9),
        "ranks": data.ranks(shown, "loss", "loss", Window(9), 9),
        "series": data.series(shown, "gradient", path, Window(9)),
        "distribution": data.distribution(shown, "gradient", path, Window(9)),
        "compare": data.compare(pair, "gradient", "l2", "step", "", 9),
        "compare-series": data.compare_series(pair, "gradient", path, "l2", "fraction", 9),
    }
    for name, answer in true.items():
        found = asker.get(name, **good[name])
        # In which order sums are made is left to the database: so much for the last bit.
        inexact = {"values", "model", "statistics", "zeros", "nonfinite", "runs", "findings"}
        for key in set(answer) - inexact:
            assert found[key] == answer[key], (name, key)
        assert set(found) == set(answer)
    assert asker.get("run", **good["run"])["kinds"] == data.overview(shown, [])["kinds"]


def test_the_contract_has_no_request_that_is_not_answered(asker, good):
    assert set(good) | {"pictures", "picture", "events"} == {
        route.path.removeprefix("/api/")
        for route in asker.app._app.routes
        if route.path.startswith("/api/")
    }


def test_zoom_and_change_are_taken_from_the_request(asker, good):
    zoomed = asker.get("heatmap", **good["heatmap"], **{"from": 5, "to": 8})
    assert (zoomed["first"], zoomed["last"]) == ([5, 6, 7, 8], [5, 6, 7, 8])
    some = asker.get("heatmap", **{**good["heatmap"], "columns": 100}, since=19, width=1)
    assert (some["first"], some["complete"]) == ([19, 20], False)


def test_large_answers_are_packed_for_those_who_can_unpack_them(asker, good):
    cookie = ("cookie", asker.cookie)
    query = "&".join(f"{key}={value}" for key, value in good["series"].items())
    plain = asker.ask("/api/series", query, [cookie])
    packed = asker.ask("/api/series", query, [cookie, ("accept-encoding", "gzip, br")])
    assert packed.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(packed.body)).keys() == plain.json.keys()
    assert len(packed.body) < len(plain.body)


@pytest.mark.parametrize(
    ("name", "changes", "status", "words"),
    [
        ("run", {"run": "0" * 16}, 404, "no such run"),
        ("run", {"run": None}, 400, "lacks 'run'"),
        ("tree", {"kind": "output"}, 404, "No kind 'output'"),
        ("tree", {"kind": "nonsense"}, 404, "No kind 'nonsense'"),
        ("heatmap", {"revision": "0"}, 409, "again"),
        ("heatmap", {"revision": None}, 400, "lacks 'revision'"),
        ("heatmap", {"statistic": "l3"}, 400, "no statistic 'l3'"),
        ("heatmap", {"rows": ""}, 400, "whole number"),
        ("heatmap", {"rows": "0,-1"}, 400, "Rows are nodes"),
        ("heatmap", {"rows": "0,14"}, 400, "Rows are nodes"),
        ("heatmap", {"rows": ",".join(["0"] * 501)}, 400, "number of 'rows' must be 1 to 500"),
        ("heatmap", {"rows": ",".join(["0"] * 500), "columns": 301}, 400, "1 to 150,000"),
        ("heatmap", {"rows": "1e3"}, 400, "whole number"),
        ("heatmap", {"rows": "٣"}, 400, "whole number"),
        ("heatmap", {"columns": 0}, 400, "1 to 2,000"),
        ("heatmap", {"columns": 2001}, 400, "1 to 2,000"),
        ("heatmap", {"columns": "9" * 30}, 400, "whole number"),
        ("heatmap", {"columns": "nan"}, 400, "whole number"),
        ("heatmap", {"from": 9, "to": 8}, 400, "before"),
        ("numbers", {"columns": None}, 400, "lacks 'columns'"),
        ("numbers", {"rank": 7}, 404, "no rank 7"),
        ("numbers", {"rank": "every"}, 400, "whole number"),
        ("ranks", {"rows": 0}, 400, "1 to 500"),
        ("ranks", {"rows": 500, "columns": 301}, 400, "1 to 150,000"),
        ("ranks", {"path": "nothing"}, 404, "No loss"),
        ("series", {"path": "net/nothing"}, 404, "Closest"),
        ("series", {"path": "x" * 12_001}, 400, "0 to 12,000"),
        ("distribution", {"path": ""}, 404, "No gradient of ''"),
        ("compare", {"runs": "a"}, 400, "number of 'runs' must be 2 to 16"),
        ("compare", {"runs": ",".join("a" * 17)}, 400, "number of 'runs' must be 2 to 16"),
        ("compare", {"align": "time"}, 400, "step, fraction"),
        ("compare", {"pattern": "nothing"}, 404, "in common"),
        ("compare", {"pattern": "x" * 501}, 400, "0 to 500"),
        ("compare-series", {"path": "nothing"}, 404, "No gradient"),
    ],
)
def test_a_request_that_is_wrong_is_told_why(asker, good, name, changes, status, words):
    given = {k: v for k, v in {**good[name], **changes}.items() if v is not None}
    answered = asker.api(name, **given)
    assert answered.status == status
    assert words in answered.json["error"]


def test_a_parameter_that_is_given_twice_is_refused(asker):
    run = asker.ids[0]
    answered = asker.ask("/api/run", f"run={run}&run={run}", [("cookie", asker.cookie)])
    assert answered.status == 400
    assert "2 times" in answered.json["error"]


def test_a_pattern_that_would_take_for_ever_is_answered_at_once(asker, good):
    for pattern in ("*a" * 250, "?*" * 250, "[!" * 240, "*" * 500):
        assert asker.api("compare", **{**good["compare"], "pattern": pattern}).status in (200, 404)


def test_a_fault_of_ours_says_nothing_of_the_machine(asker, good, monkeypatch, capsys, place):
    def fail(*_):
        raise RuntimeError(f"at {place}")

    monkeypatch.setattr(RunView, "tree", fail)
    answered = asker.api("tree", **good["tree"])
    assert answered.status == 500
    assert str(place) not in answered.body.decode()
    said = capsys.readouterr().err
    assert "/api/tree" in said
    assert asker.cookie.partition("=")[2] not in said


def test_one_run_is_served_by_itself(place):
    with asking(place / "a") as asker:
        [run] = asker.get("runs")["runs"]
        assert run["name"] == "a"
        assert asker.get("run", run=run["id"])["last_step"] == 20


def test_the_rank_that_was_asked_for_is_shown(tmp_path):
    for rank in (0, 1):
        recorder(tmp_path / "runs" / "a", rank=rank).write(range(1, 4)).close()
    with asking(tmp_path / "runs", rank=1) as asker:
        answer = asker.get("series", run=asker.ids[0], kind="gradient", path="net", columns=9)
        true = [truth(Kind.GRADIENT, "net", "l2", [step], rank=1) for step in (1, 2, 3)]
        assert doubles(answer["statistics"]["l2"]).tolist() == pytest.approx(true, nan_ok=True)
        assert asker.get("run", run=asker.ids[0])["rank"] == "1"
        asked = {"run": asker.ids[0], "kind": "gradient", "path": "net", "columns": 9}
        answer = asker.get("series", **asked, rank="first")
        true = [truth(Kind.GRADIENT, "net", "l2", [step], rank=0) for step in (1, 2, 3)]
        assert doubles(answer["statistics"]["l2"]).tolist() == pytest.approx(true, nan_ok=True)
        assert asker.get("run", run=asker.ids[0], rank="all")["rank"] == "all"


def test_a_thousand_layers_have_a_row_each_in_a_comparison(tmp_path):
    paths = [f"net/layer{i}/kernel" for i in range(1000)]
    for name in "ab":
        sites = [Site(Kind.GRADIENT, path) for path in paths]
        Recorder(tmp_path / name, sites=sites).write([1, 2]).close()
    with asking(tmp_path) as asker:
        asked = {"kind": "gradient", "statistic": "l2", "align": "step", "columns": 50}
        answer = asker.get("compare", runs=",".join(asker.ids), **asked)
    assert answer["paths"] == paths
    assert not any(answer["merged"])


@pytest.mark.parametrize("table", ["summaries", "histograms", "all"])
def test_every_request_is_answered_of_the_rest_of_a_damaged_run(tmp_path, table):
    recorder(tmp_path / "a").write(range(1, 21), histograms=True).close()
    for file in list(tmp_path.rglob("*.parquet")):
        if table in (file.name.split(".")[1], "all"):
            file.unlink()
    with asking(tmp_path) as asker:
        cookie = [("cookie", asker.cookie)]
        revision = asker.get("tree", run=asker.ids[0], kind="gradient")["revision"]
        for name, params in requests(asker.ids[0], revision).items():
            answered = asker.ask(f"/api/{name}", urlencode(params), cookie)
            assert answered.status == 200, (name, answered.json)
        assert asker.get("run", run=asker.ids[0])["damage"]
