"""Losses, groups of a loop and named groups, in the sinks."""

import io
from dataclasses import replace

import numpy as np
import pytest

from gradwatch.core import Grouping, Kind, Site
from gradwatch.sinks import CSV, Console, TensorBoard

GRADIENT = Site(Kind.GRADIENT, "dense/kernel")
LOSS = Site(Kind.LOSS, "loss")


def test_tensorboard_has_the_loss_as_one_plain_tag(run, make_reading, tensorboard):
    sink = TensorBoard()
    sink.open(run)
    sink.write(make_reading(1, {GRADIENT: [3.0, 4.0], LOSS: 0.5}))
    sink.write(make_reading(2, {GRADIENT: [3.0, 4.0], LOSS: np.nan}))
    sink.write(make_reading(3, {LOSS: -np.inf}))
    sink.close()
    series = tensorboard(run.directory)["series"]
    points = _points(series["loss"])
    assert [step for step, _ in points] == [1, 2, 3]
    np.testing.assert_array_equal([value for _, value in points], [0.5, np.nan, -np.inf])
    assert [tag for tag in series if "loss" in tag] == ["loss"]
    assert _points(series["model/gradient_l2"]) == [(1, 5.0), (2, 5.0)]


def test_tensorboard_keeps_the_totals_of_groups_apart(run, make_reading, tensorboard):
    sink = TensorBoard(statistics=["l2"])
    sink.open(run)
    for name, x in {"generator": [3.0, 4.0], "critic": [6.0, 8.0]}.items():
        site = Site(Kind.GRADIENT, f"{name}/dense/bias")
        loss = Site(Kind.LOSS, f"{name}/loss")
        reading = replace(make_reading(1, {site: x, loss: 1.0}), group=name)
        sink.write(Grouping({"biases": "bias"}).attach(reading))
    sink.close()
    series = tensorboard(run.directory)["series"]
    found = {tag: _points(points)[0][1] for tag, points in series.items()}
    assert found == {
        "generator/gradient_l2": 5.0,
        "critic/gradient_l2": 10.0,
        "per_tensor_gradient_l2/generator/dense/bias": 5.0,
        "per_tensor_gradient_l2/critic/dense/bias": 10.0,
        "per_layer_gradient_l2/generator/dense": 5.0,
        "per_layer_gradient_l2/critic/dense": 10.0,
        "group_gradient_l2/generator/biases": 5.0,
        "group_gradient_l2/critic/biases": 10.0,
        "generator/loss": 1.0,
        "critic/loss": 1.0,
        "generator/epoch": 1.0,
        "critic/epoch": 1.0,
    }


def test_the_console_shows_the_loss_in_its_title_and_no_micro_batches(run, make_reading):
    out = io.StringIO()
    sink = Console(file=out)
    sink.open(run)
    part = make_reading(7, {Site(Kind.GRADIENT, "micro_batch_0/dense/kernel"): [1.0]})
    sink.write(replace(part, micro_batch=0))
    sink.write(make_reading(7, {GRADIENT: [3.0, 4.0], LOSS: 0.123456}))
    sink.epoch_end(2, {})
    title, header, *rows = out.getvalue().strip().splitlines()
    assert title == "gradwatch · epoch 2 · step 7 · loss 0.1235"
    assert header.split()[0] == "layer"
    assert [row.split()[0] for row in rows] == ["dense", "model"]
    assert rows[-1].split()[2] == "5.00"


def title_of(run, readings, logs):
    """The lines above the table of the console."""
    out = io.StringIO()
    sink = Console(file=out)
    sink.open(run)
    for reading in readings:
        sink.write(reading)
    sink.epoch_end(2, logs)
    lines = out.getvalue().strip().splitlines()
    return lines[: next(i for i, line in enumerate(lines) if line.startswith("layer "))]


@pytest.mark.parametrize("columns", [120, 60])
def test_the_console_shows_all_metrics_of_the_epoch_each_with_its_validation(
    run, make_reading, monkeypatch, columns
):
    monkeypatch.setenv("COLUMNS", str(columns))
    logs = {"accuracy": 0.75, "auc": 0.8, "loss": 0.6}
    logs |= {"val_accuracy": 0.7, "val_auc": 0.9, "val_loss": np.nan}
    lines = title_of(run, [make_reading(7, {GRADIENT: [3.0, 4.0], LOSS: 0.5})], logs)
    assert len(lines) == (1 if columns == 120 else 2)
    assert " · ".join(lines) == (
        "gradwatch · epoch 2 · step 7 · loss 0.6 · val_loss nan · accuracy 0.75 · val_accuracy 0.7"
        " · auc 0.8 · val_auc 0.9"
    )


def test_the_console_shortens_the_name_of_a_metric_and_never_its_value(
    run, make_reading, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "40")
    lines = title_of(run, [make_reading(7, {GRADIENT: [3.0, 4.0]})], {"x" * 99: 0.123456})
    assert all(len(line) <= 40 for line in lines)
    assert lines[1].endswith("… 0.1235") or lines[1].endswith("x 0.1235")


def test_the_loss_that_a_loop_reports_stands_in_the_title_of_the_console(run, make_reading):
    reported = Site(Kind.METRIC, "loss")
    readings = [
        make_reading(7, {GRADIENT: [3.0, 4.0], LOSS: 0.5, reported: 0.7}),
        make_reading(8, {reported: 0.65}),
    ]
    assert title_of(run, readings, {}) == ["gradwatch · epoch 2 · step 7 · loss 0.65"]


def test_the_table_has_a_row_for_the_loss(run, make_reading):
    sink = CSV()
    sink.open(run)
    sink.write(make_reading(1, {LOSS: 0.5}))
    sink.close()
    row = (run.directory / "summaries.csv").read_text().splitlines()[1].split(",")
    assert row[3:5] == ["loss", "loss"]
    assert row[10] == "0.5"


def _points(series):
    """(step, value) of a tag."""
    _, _, points = series
    return [(step, float(value)) for step, value in points]


@pytest.fixture(autouse=True)
def _no_terminal_width(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
