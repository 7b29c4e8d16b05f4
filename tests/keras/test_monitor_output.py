"""What a fit leaves on the screen and in TensorBoard, beside Keras's own output."""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import gradwatch
from gradwatch.core import finite, statistic
from tests.keras.support import Keep
from tests.keras.support_behaviour import EVERYTHING, fit, linear_model

pytestmark = pytest.mark.any_backend

READER = Path(__file__).parents[1] / "tensorboard_reader.py"


@pytest.mark.parametrize("verbose", [1, 2])
def test_the_table_comes_after_keras_line_of_the_epoch(
    tmp_path: Path, capsys: Any, verbose: int
) -> None:
    monitor = gradwatch.Monitor(tmp_path, every=1, sinks=[gradwatch.Console()])
    fit(linear_model(), 3, monitor, epochs=2, verbose=verbose)
    text = capsys.readouterr().out
    # The progress bar draws over its own line.
    lines = [line.rpartition("\r")[2] for line in text.replace("\b", "").splitlines()]
    places = {
        name: [i for i, line in enumerate(lines) if name in line]
        for name in ("Epoch ", "3/3", "gradwatch · epoch", "dense  ")
    }
    bars = places.pop("3/3")
    assert [len(found) for found in places.values()] == [2, 2, 2]
    in_epochs = []
    for epoch, title, row in zip(*places.values(), strict=True):
        # If the last step takes long, Keras draws its bar a second time.
        in_epochs += (drawn := [bar for bar in bars if epoch < bar < title])
        assert drawn
        assert title < row
    assert in_epochs == bars
    # Nothing of ours stands on a line of Keras's, nor between its lines.
    assert places["gradwatch · epoch"][0] < places["Epoch "][1]
    for i in bars:
        assert "loss: " in lines[i]
        assert "gradwatch" not in lines[i]
    titles = [lines[i].partition(" · loss ")[0] for i in places["gradwatch · epoch"]]
    assert titles == ["gradwatch · epoch 1 · step 3", "gradwatch · epoch 2 · step 6"]


def test_a_line_says_where_the_run_is_and_another_how_it_went(tmp_path: Path, capsys: Any) -> None:
    place = tmp_path / "a run"
    fit(linear_model(), 3, gradwatch.Monitor(place), epochs=2, verbose=2)
    first, *between, last = capsys.readouterr().out.splitlines()
    assert first == (
        f"gradwatch · the run is kept in {place} · to look at it: gradwatch view '{place}'"
    )
    assert last.startswith("gradwatch · 6 of 6 steps measured, no findings")
    assert "training time" not in last  # For that, 6 steps are no evidence.
    assert not any("the run is kept in" in line for line in between)


def test_a_loop_says_so_too_at_its_end(tmp_path: Path, capsys: Any) -> None:
    with gradwatch.Monitor(tmp_path, every=2) as monitor:
        for _ in range(4):
            monitor.record(gradients={"a": np.ones(2)}, variables={"a": np.ones(2)})
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"gradwatch · the run is kept in {tmp_path}")
    # The first is that of its epoch.
    assert last.startswith("gradwatch · 3 of 4 steps measured")


def test_a_quiet_fit_prints_nothing_but_into_a_file_that_was_asked_for(
    tmp_path: Path, capsys: Any
) -> None:
    log = io.StringIO()
    for sinks in (None, [gradwatch.Console(file=log)]):
        fit(linear_model(), 3, gradwatch.Monitor(tmp_path, sinks=sinks), verbose=0)
    assert capsys.readouterr().out == ""
    assert "gradwatch · epoch 1" in log.getvalue()


def test_nothing_is_printed_without_the_console(tmp_path: Path, capsys: Any) -> None:
    monitor = gradwatch.Monitor(tmp_path, every=1, sinks=[gradwatch.CSV()])
    fit(linear_model(), 2, monitor)
    assert capsys.readouterr().out == ""


def read_by_tensorboard(directory: Path) -> dict[str, Any]:
    """What TensorBoard's own accumulator has after loading the run."""
    done = subprocess.run(
        [sys.executable, READER],
        input=(json.dumps(str(directory)) + "\n").encode(),
        capture_output=True,
        timeout=600,
        check=True,
    )
    return pickle.loads(done.stdout)["series"]


def scalars_of(readings: Any) -> dict[str, dict[int, float]]:
    """Every scalar that the run should have, by tag and step."""
    expected: dict[str, dict[int, float]] = {}
    for r in readings:
        values: dict[str, float] = {"model/epoch": r.epoch}
        for name in ("l2", "linf", "mean", "std"):
            column = r.statistic(name)
            for site, i in r.position.items():
                values[f"per_tensor_{site.kind}_{name}/{site.path}"] = column[i]
            for kind in {site.kind for site in r.sites}:
                values[f"model/{kind}_{name}"] = float(statistic(name, r.total(kind)))
                for layer, summary in r.layers(kind).items():
                    values[f"per_layer_{kind}_{name}/{layer}"] = float(statistic(name, summary))
        values |= {
            f"per_tensor_update_ratio/{path}": ratio for path, ratio in r.update_ratios().items()
        }
        for tag, value in values.items():
            if not np.isnan(value):
                expected.setdefault(tag, {})[r.step] = value
    return expected


def test_tensorboard_reads_every_value_that_was_measured(tmp_path: Path) -> None:
    keep = Keep({gradwatch.Kind.LOSS, gradwatch.Kind.SCALAR})
    sinks = [keep, gradwatch.TensorBoard(statistics=("l2", "linf", "mean", "std"))]
    monitor = gradwatch.Monitor(tmp_path, every=1, watch=EVERYTHING, sinks=sinks)
    model = linear_model(keras.optimizers.SGD(0.1, clipvalue=0.1))
    fit(model, 2, monitor, epochs=2)
    fit(model, 1, monitor)
    assert keep.steps == [1, 2, 3, 4, 5]

    series = read_by_tensorboard(tmp_path)
    plots = {
        tag: dict(points) for tag, (plugin, _, points) in series.items() if plugin == "scalars"
    }
    expected = scalars_of(keep.readings)
    assert plots.keys() - expected.keys() == {
        "loss",
        "metrics/loss",
        "metrics/epoch_loss",
        "metrics/learning_rate",
    }
    for tag, points in expected.items():
        assert list(plots[tag]) == list(points), tag
        np.testing.assert_allclose(
            [float(v) for v in plots[tag].values()], list(points.values()), rtol=1e-6, err_msg=tag
        )

    histograms = {tag: dict(p) for tag, (plugin, _, p) in series.items() if plugin == "histograms"}
    taken = {
        f"per_tensor_{site.kind}/{site.path}"
        for r in keep.readings
        for site in map(r.sites.__getitem__, r.cells)
    }
    assert set(histograms) == taken
    for r in keep.readings:
        for i in r.cells:
            site = r.sites[i]
            buckets = histograms[f"per_tensor_{site.kind}/{site.path}"][r.step]
            assert buckets[:, 2].sum() == finite(r.summary)[i]
            np.testing.assert_allclose(buckets[0, 0], r.summary.min[i], rtol=1e-6)
            np.testing.assert_allclose(buckets[-1, 1], r.summary.max[i], rtol=1e-6)
