"""`ls` and `show`: what they say equals what NumPy says of the tensors."""

import math
import re

import numpy as np
import pytest

from gradwatch import Kind, Site
from gradwatch.store.description import Description
from gradwatch.watches import Cost
from tests.cli.support import PATHS, arrays, invoke, make_run, strict
from tests.view.data.made_metrics import metric_run


def finite_l2(*tensors):
    values = np.concatenate([np.ravel(t) for t in tensors]).astype(np.float64)
    return math.sqrt(float((values[np.isfinite(values)] ** 2).sum()))


def test_ls_tells_status_steps_duration_loss_sites_size_and_damage(run, truth):
    (entry,) = strict(invoke("ls", run.parent, "--json").stdout)
    assert (entry["name"], entry["status"]) == ("shared", "finished")
    assert (entry["last_step"], entry["measured_steps"]) == (40, 40)
    assert entry["duration"] == 39.0
    assert entry["sites"] == len(truth)
    assert entry["losses"] == {"loss": 1 / 40}
    assert entry["learning"]["word"] == "learned"
    header, row = invoke("ls", run.parent).stdout.splitlines()[:2]
    assert row[header.index("verdict") :].startswith("learned ")
    assert entry["bytes"] == sum(f.stat().st_size for f in run.rglob("*") if f.is_file())
    assert (entry["damage"], entry["lost_rows"]) == ([], 0)


@pytest.mark.usefixtures("unsealed")
def test_ls_lists_runs_at_any_depth_and_a_broken_one_hides_no_other(tmp_path):
    for name in ("a", "deep/down/b"):
        make_run(tmp_path / name)
    (journal,) = (tmp_path / "a").glob("*.gwj")
    data = bytearray(journal.read_bytes())
    data[len(data) // 2] ^= 1
    journal.write_bytes(data)
    entries = strict(invoke("ls", tmp_path, "--json", code=1).stdout)
    assert {e["name"]: e["status"] for e in entries} == {"a": "damaged", "deep/down/b": "finished"}
    text = invoke("ls", tmp_path, code=1).stdout
    assert "1 found" in text
    assert "deep/down/b" in text


def test_ls_of_a_directory_without_runs_is_a_mistake_that_is_explained(tmp_path):
    assert "gradwatch: There is no run in" in invoke("ls", tmp_path, code=2).stderr


def test_show_has_the_newest_norms_of_each_layer_in_network_order(run, truth):
    facts = strict(invoke("show", run, "--json").stdout)
    assert [layer["layer"] for layer in facts["layers"]] == ["net/conv", "net/dense"]
    for layer in facts["layers"]:
        paths = [path for path in PATHS if path.startswith(layer["layer"])]

        def last(kind, paths=paths):
            return [truth[Site(kind, path)][40] for path in paths]

        gradients, weights, updates = map(last, (Kind.GRADIENT, Kind.WEIGHT, Kind.UPDATE))
        assert layer["gradient_l2"] == pytest.approx(finite_l2(*gradients), rel=1e-12)
        assert layer["weight_l2"] == pytest.approx(finite_l2(*weights), rel=1e-12)
        ratio = finite_l2(*updates) / finite_l2(*weights)
        assert layer["update_ratio"] == pytest.approx(ratio, rel=1e-12)
        joined = np.concatenate(gradients)
        assert layer["gradient_zero_share"] == (joined == 0).mean()
        assert layer["parameters"] == sum(w.size for w in weights)


def test_the_trend_of_a_layer_is_the_root_of_its_mean_squares(run, truth):
    facts = strict(invoke("show", run, "--json").stdout)
    trend = facts["layers"][1]["gradient_trend"]
    for first, last, value in zip(
        trend["first_steps"], trend["last_steps"], trend["values"], strict=True
    ):
        squares = [
            finite_l2(*(truth[Site(Kind.GRADIENT, path)][step] for path in PATHS[2:])) ** 2
            for step in range(first, last + 1)
        ]
        assert value == pytest.approx(math.sqrt(np.mean(squares)), rel=1e-12)
    assert trend["last_steps"][-1] == 40


def test_health_counts_what_is_not_finite_and_names_gradients_that_are_all_0(run):
    facts = strict(invoke("show", run, "--json").stdout)
    assert facts["health"]["nonfinite"] == [
        {
            "kind": "gradient",
            "path": PATHS[0],
            "elements": 2,
            "steps": 2,
            "first_step": 7,
            "last_step": 9,
        }
    ]
    assert facts["health"]["zero_gradients"] == [{"path": PATHS[3], "steps": 10, "of": 40}]
    text = invoke("show", run).stdout
    assert "2 elements of 1 site, steps 7 to 9" in text
    assert "1 gradient: net/dense/bias (in 10 of 40 steps)" in text
    assert "!" in text  # in the bars


def test_the_largest_and_smallest_gradients_are_those_of_the_last_step(run, truth):
    facts = strict(invoke("show", run, "--json").stdout)["gradients"]
    norms = {path: finite_l2(truth[Site(Kind.GRADIENT, path)][40]) for path in PATHS}
    ordered = sorted(norms, key=norms.get, reverse=True)
    assert [e["path"] for e in facts["largest"]] == ordered[:2]
    assert [e["path"] for e in facts["smallest"]] == ordered[:1:-1]
    for entry in facts["largest"]:
        series = truth[Site(Kind.GRADIENT, entry["path"])]
        peaks = {step: finite_l2(tensor) for step, tensor in series.items()}
        assert entry["l2"] == pytest.approx(norms[entry["path"]], rel=1e-12)
        assert entry["peak"] == pytest.approx(max(peaks.values()), rel=1e-12)
        assert entry["peak_step"] == max(peaks, key=peaks.get)


def test_losses_have_their_first_last_and_lowest_value(run):
    (loss,) = strict(invoke("show", run, "--json").stdout)["numbers"]
    assert (loss["first"], loss["last"], loss["lowest"], loss["highest"]) == (1, 1 / 40, 1 / 40, 1)
    assert loss["lowest_step"] == 40


def test_losses_and_metrics_stand_on_top_with_their_last_and_best_values(tmp_path):
    steps = {step: np.array(step / 40) for step in range(1, 41)}
    peak = {step: np.array(1 - abs(step - 30) / 40) for step in range(1, 41)}
    truth = {
        **arrays(),
        Site(Kind.SCALAR, "learning_rate"): {step: np.array(0.1) for step in steps},
        Site(Kind.METRIC, "accuracy"): peak,
        Site(Kind.METRIC, "loss"): steps,
        Site(Kind.EPOCH_METRIC, "val_loss"): {20: np.array(2.0), 40: np.array(3.0)},
    }
    make_run(tmp_path / "a", truth)
    numbers = strict(invoke("show", tmp_path / "a", "--json").stdout)["numbers"]
    assert [(n["kind"], n["path"], n["last"], n["best"], n["best_step"]) for n in numbers] == [
        ("loss", "loss", 1 / 40, 1 / 40, 40),
        ("metric", "accuracy", 0.75, 1.0, 30),
        ("metric", "loss", 1.0, 1 / 40, 1),
        ("epoch_metric", "val_loss", 3.0, 2.0, 20),
        ("scalar", "learning_rate", 0.1, None, None),
    ]
    text = invoke("show", tmp_path / "a").stdout
    assert text.index("Losses") < text.index("Health")
    names = ["loss of the step", "accuracy", "loss, as reported", "val_loss of the epoch"]
    rows = [line for line in text.splitlines() if line.startswith((*names, "learning_rate"))]
    assert [re.split("  +", row)[0] for row in rows] == [*names, "learning_rate"]
    assert re.split("  +", rows[1])[2:5] == ["0.750", "1.00", "30"]
    assert "▁" in rows[0]
    report = invoke("report", tmp_path / "a", "--format", "md").stdout
    assert report.index("`val_loss of the epoch`") < report.index("### Findings")


def test_the_best_of_a_metric_is_of_an_epoch_not_of_its_first_batches(tmp_path):
    after_steps = {1: 0.5, 2: 0.6, 3: 1.0, 4: 0.7}
    truth = {
        **arrays(),
        Site(Kind.METRIC, "accuracy"): {s: np.array(x) for s, x in after_steps.items()},
        Site(Kind.EPOCH_METRIC, "accuracy"): {2: np.array(0.6), 4: np.array(0.7)},
    }
    make_run(tmp_path / "a", truth)
    numbers = strict(invoke("show", tmp_path / "a", "--json").stdout)["numbers"]
    assert [(n["best"], n["best_step"]) for n in numbers[1:]] == [(0.7, 4), (0.7, 4)]
    for text in (
        invoke("show", tmp_path / "a").stdout,
        invoke("report", tmp_path / "a", "--format", "md").stdout,
    ):
        assert "accuracy of the epoch so far" in text


def test_a_cost_that_was_never_known_is_not_mentioned(tmp_path):
    make_run(tmp_path / "a")
    description = Description(tmp_path / "a")
    description.amend("cost", Cost(0.01, 1, 1, steps=120, measured_steps=60).facts())
    description.write()
    text = invoke("show", tmp_path / "a").stdout
    assert "\ncost " not in text
    assert text.count("measured") == 1


def test_many_layers_are_folded_and_named_once(tmp_path):
    paths = [f"net/block_{i}_{part}/kernel" for i in range(12) for part in ("in", "out")]
    make_run(tmp_path / "a", arrays(paths=("net/embed/kernel", *paths, "net/logits/kernel")))
    text = invoke("show", tmp_path / "a").stdout.partition("\nLayers\n")[2]
    names = [re.split("  +", line)[0] for line in text.splitlines()[1:-1]]
    assert names == ["embed", *(f"block_{i}" for i in range(12)), "logits"]
    assert text.splitlines()[-1].startswith("26 layers, folded")
    some = invoke("show", tmp_path / "a", "--sites", "block_3*").stdout.partition("\nLayers\n")[2]
    assert [line.split()[0] for line in some.splitlines()[1:]] == ["block_3_in", "block_3_out"]


@pytest.mark.parametrize("bad", ["nan", "inf"])
@pytest.mark.parametrize("command", ["show", "top", "report"])
def test_a_layer_that_is_not_finite_is_shown_so(tmp_path, bad, command):
    truth = arrays()
    for kind in (Kind.GRADIENT, Kind.WEIGHT, Kind.UPDATE):
        truth[Site(kind, PATHS[0])][40][:] = float(bad)
    make_run(tmp_path / "a", truth)
    options = ["--format", "md"] if command == "report" else []
    text = invoke(command, tmp_path / "a", *options).stdout
    (row,) = [line for line in text.splitlines() if re.match(r"(\| `net/)?conv\b(?!/)", line)]
    assert len(re.findall(rf"\b{bad}\b", row)) >= 2
    assert " 0 " not in row.replace("|", " ")


def test_a_loss_that_is_not_finite_is_shown_as_what_it_is(tmp_path):
    truth = arrays()
    truth[Site(Kind.LOSS, "loss")][40][:] = float("-inf")
    truth[Site(Kind.LOSS, "loss")][1][:] = float("nan")
    make_run(tmp_path / "a", truth)
    (loss,) = strict(invoke("show", tmp_path / "a", "--json").stdout)["numbers"]
    assert (loss["first"], loss["last"]) == ("nan", "-inf")
    assert loss["lowest"] == 1 / 39


@pytest.mark.parametrize(("statistic", "of"), [("mean", np.mean), ("max", np.max), ("std", np.std)])
def test_a_statistic_of_each_site_can_be_chosen(run, truth, statistic, of):
    facts = strict(
        invoke("show", run, "--kind", "weight", "--statistic", statistic, "--json").stdout
    )
    assert [e["path"] for e in facts["sites"]] == list(PATHS)
    for entry in facts["sites"]:
        series = [of(truth[Site(Kind.WEIGHT, entry["path"])][step]) for step in range(1, 41)]
        assert entry["first"] == pytest.approx(series[0], rel=1e-9)
        assert entry["last"] == pytest.approx(series[-1], rel=1e-9)
        assert entry["lowest"] == pytest.approx(min(series), rel=1e-9)
        assert entry["highest"] == pytest.approx(max(series), rel=1e-9)
        assert entry["highest_step"] == 1 + int(np.argmax(series))


def test_sites_are_selected_and_excluded_by_patterns(run):
    arguments = (
        "show",
        run,
        "--kind",
        "gradient",
        "--json",
        "--sites",
        "net/*",
        "--sites",
        "!bias",
    )
    facts = strict(invoke(*arguments).stdout)
    assert [e["path"] for e in facts["sites"]] == ["net/conv/kernel", "net/dense/kernel"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--kind", "gradinet"), "gradinet"),
        (("--kind", "output"), "selects nothing of shared"),
        (("--statistic", "l3"), "There is no statistic 'l3'"),
        (("--sites", "lstm"), "selects nothing of shared"),
        (("--rank", "3"), "There is no rank 3"),
    ],
)
def test_what_is_not_there_is_a_line_on_stderr_and_code_2(run, arguments, words):
    result = invoke("show", run, *arguments, code=2)
    assert result.stdout == ""
    assert result.stderr.startswith("gradwatch: ")
    assert result.stderr.count("\n") == 1
    assert words in result.stderr


@pytest.mark.usefixtures("unsealed")
def test_a_damaged_run_is_shown_as_far_as_it_is_whole_with_code_1(tmp_path, truth):
    make_run(tmp_path / "a", truth)
    (journal,) = (tmp_path / "a").glob("*.gwj")
    data = bytearray(journal.read_bytes())
    data[len(data) // 2] ^= 1
    journal.write_bytes(data)
    facts = strict(invoke("show", tmp_path / "a", "--json", code=1).stdout)
    assert facts["measured_steps"] == 39
    (damage,) = facts["health"]["damage"]
    assert damage["file"].endswith(journal.name)
    assert journal.name in invoke("show", tmp_path / "a", code=1).stdout


def test_a_directory_of_several_runs_asks_which_one(tmp_path):
    for name in ("a", "b"):
        make_run(tmp_path / name)
    message = invoke("show", tmp_path, code=2).stderr
    assert str(tmp_path / "a") in message
    assert str(tmp_path / "b") in message


def test_a_run_in_the_folder_runs_can_be_named_without_it(tmp_path, monkeypatch):
    make_run(tmp_path / "runs" / "mine")
    monkeypatch.chdir(tmp_path)
    assert "mine  finished  ok  runs/mine" in invoke("show", "mine").stdout
    assert "mine" in invoke("ls").stdout


def test_show_and_reports_have_settings_tags_and_the_note(tmp_path):
    told = {"config": {"lr": 0.01, "net": {"units": 8}}, "tags": ["a", "b"], "note": "a\ntry"}
    metric_run(tmp_path / "a", **told)
    words = {"note": "a try", "tags": "a, b", "config": "lr 0.01, net.units 8"}
    text = invoke("show", tmp_path / "a").stdout
    for name, line in words.items():
        assert f"{name:<10}  {line}\n" in text
    invoke("report", tmp_path / "a", "--output", tmp_path / "a.json")
    invoke("report", tmp_path / "a", "--output", tmp_path / "a.md")
    report = strict((tmp_path / "a.json").read_text())
    for facts in (strict(invoke("show", tmp_path / "a", "--json").stdout), report):
        assert facts["config"] == {"lr": 0.01, "net.units": 8}
        assert (facts["tags"], facts["note"]) == (["a", "b"], "a\ntry")
    shown = {each["name"]: each["value"] for each in report["facts"]}
    assert words.items() <= shown.items()
    for line in words.values():
        assert line.replace("_", "") in (tmp_path / "a.md").read_text()
    metric_run(tmp_path / "b", 1)
    assert "note" not in invoke("show", tmp_path / "b").stdout


def test_ls_has_metrics_settings_tags_and_notes(tmp_path):
    told = {"config": {"lr": 0.01, "net": {"units": 8}}, "tags": ["sweep"], "note": "a try"}
    truth = metric_run(tmp_path / "a", **told)
    metric_run(tmp_path / "b", 1, config={"lr": 0.5, "net": {"units": 8}})
    first, second = strict(invoke("ls", tmp_path, "--json").stdout)
    last = {(site.kind, site.path): list(own.values())[-1] for site, own in truth.items()}
    assert first["metrics"] == pytest.approx(
        {
            "accuracy": last["metric", "accuracy"],
            "val_loss": last["epoch_metric", "val_loss"],
            "val_accuracy": last["epoch_metric", "val_accuracy"],
        },
        rel=1e-12,
    )
    assert first["config"] == {"lr": 0.01, "net.units": 8}
    assert (first["tags"], first["note"]) == (["sweep"], "a try")
    assert second["config"]["lr"] == 0.5
    header, *rows = invoke("ls", tmp_path).stdout.splitlines()
    for word in ("val_loss", "accuracy", "lr", "tags", "note"):
        assert word in header
    # A setting that all runs have alike says nothing.
    assert "net.units" not in header
    assert "0.01" in rows[0]
    assert "a try" in rows[0]
