"""What holds in all frameworks: steps, epochs, groups, micro-batches, and mistakes."""

import os
import subprocess
import sys

import numpy as np
import pytest

import gradwatch
from gradwatch import Kind, Site
from tests.conftest import SOURCES
from tests.loop.support import Line, assert_measured, assert_no_elements, paths
from tests.store.written import written

W = {"a": {"w": np.array([1.0, -2.0])}, "b": {"w": np.array([[3.0]])}}
G = {"a": {"w": np.array([0.5, 0.0])}, "b": {"w": np.array([[-1.5]])}}


def test_arrays_of_a_hand_written_network_are_recorded(make_monitor):
    line = Line()
    kernel, bias = line.kernel.astype("f8"), line.bias.astype("f8")
    monitor, keep = make_monitor(watch=[gradwatch.gradients(histogram=True), gradwatch.updates()])
    expected = []
    for _ in range(3):
        x, y = line.batch()
        slopes = line.gradients(kernel, bias, x, y)
        before = {"kernel": kernel, "bias": bias}
        kernel, bias = kernel - 0.1 * slopes[0], bias - 0.1 * slopes[1]
        after = {"kernel": kernel, "bias": bias}
        gradients = dict(zip(after, slopes, strict=True))
        monitor.record(gradients=gradients, variables=after, previous=before, loss=0.25)
        expected.append((gradients, before, after))
    monitor.close()
    assert keep.steps == [1, 2, 3]
    for reading, (gradients, before, after) in zip(keep.readings, expected, strict=True):
        assert_measured(reading, Kind.GRADIENT, gradients)
        assert_measured(reading, Kind.WEIGHT, after)
        assert_measured(reading, Kind.UPDATE, {k: after[k] - before[k] for k in after})
        assert reading.losses() == {"loss": 0.25}
        assert set(reading.update_ratios()) == {"kernel", "bias"}


def test_only_what_is_due_is_recorded_and_the_rest_costs_no_measuring(make_monitor, monkeypatch):
    from gradwatch.capture.recorder import Recorder

    measured, measure = [], Recorder.measure
    monkeypatch.setattr(Recorder, "measure", lambda *a, **k: measured.append(1) or measure(*a, **k))
    monitor, keep = make_monitor(
        watch=[gradwatch.gradients(every=2), gradwatch.weights("b", every=3)]
    )
    for _ in range(6):
        monitor.record(gradients=G, variables=W)
    monitor.close()
    assert keep.steps == [2, 3, 4, 6]
    assert len(measured) == 4
    assert [len(paths(r, Kind.WEIGHT)) for r in keep.readings] == [0, 1, 0, 1]


def test_steps_are_counted_on_from_the_last_one_given(make_monitor):
    monitor, keep = make_monitor()
    monitor.record(gradients=G, variables=W)
    monitor.record(gradients=G, variables=W, step=np.int64(10))
    monitor.record(gradients=G, variables=W)
    monitor.close()
    monitor.record(gradients=G, variables=W)
    monitor.close()
    assert keep.steps == [1, 10, 11, 12]
    assert [run.first_step for run in keep.runs] == [1, 12]


def test_once_an_epoch_is_the_first_step_of_each(make_monitor):
    monitor, keep = make_monitor(watch=gradwatch.gradients(every="epoch"))
    for epoch in (0, 1, 2):
        for batch in range(3):
            assert monitor.due(epoch=epoch) is (batch == 0)
            monitor.record(gradients=G, variables=W, epoch=epoch)
    monitor.close()
    assert [(r.epoch, r.step) for r in keep.readings] == [(0, 1), (1, 4), (2, 7)]
    assert keep.epochs_ended == [0, 1, 2]


def test_due_says_what_record_will_do(make_monitor):
    monitor, keep = make_monitor(watch=gradwatch.gradients(every=[2, 5], histogram="epoch"))
    said = []
    for step in range(1, 8):
        epoch = 1 + step // 4
        if monitor.due(step, epoch=epoch):
            said.append((step, monitor.due(step, epoch=epoch, histograms=True)))
        monitor.record(gradients=G, variables=W, step=step, epoch=epoch)
    monitor.close()
    assert said == [(1, True), (2, False), (4, True), (5, False)]
    assert said == [(r.step, bool(r.cells)) for r in keep.readings]


def test_groups_count_their_own_steps_and_prefix_their_paths(make_monitor):
    monitor, keep = make_monitor(watch=gradwatch.gradients("generator/a", "critic/b"))
    monitor.record(gradients=G, variables=W, group="generator", loss=1.0)
    monitor.record(gradients=G, variables=W, group="critic", loss=2.0)
    monitor.record(gradients=G, variables=W, group="critic", loss=3.0)
    monitor.close()
    found = [(r.step, r.scope, paths(r, Kind.GRADIENT), r.losses()) for r in keep.readings]
    assert found == [
        (1, "generator", ["generator/a/w"], {"generator/loss": 1.0}),
        (1, "critic", ["critic/b/w"], {"critic/loss": 2.0}),
        (2, "critic", ["critic/b/w"], {"critic/loss": 3.0}),
    ]


def test_micro_batches_are_recorded_beside_the_accumulated_gradient(make_monitor):
    monitor, keep = make_monitor(every=2)
    for step in (1, 2):
        total = np.zeros(2)
        for i in range(3):
            part = np.array([step, i], float)
            monitor.record(gradients={"w": part}, variables={"w": total}, micro_batch=i, loss=i)
            total = total + part / 3
        monitor.record(gradients={"w": total}, variables={"w": total})
    monitor.close()
    recorded = [r for r in keep.readings if r.step == 2]
    assert [r.micro_batch for r in recorded] == [0, 1, 2, None]
    for i, reading in enumerate(recorded[:3]):
        assert_measured(reading, Kind.GRADIENT, {f"micro_batch_{i}/w": [2.0, i]})
        assert paths(reading, Kind.WEIGHT) == []
        assert reading.losses() == {f"micro_batch_{i}/loss": i}
    assert_measured(recorded[3], Kind.GRADIENT, {"w": [2.0, 1.0]})


def test_a_loss_alone_counts_as_a_step(make_monitor):
    monitor, keep = make_monitor(every=2)
    for loss in (4.0, 3.0, 2.0, float("nan")):
        monitor.record(loss=loss)
    monitor.close()
    assert keep.steps == [1, 2, 3, 4]
    np.testing.assert_array_equal([r.losses()["loss"] for r in keep.readings], [4, 3, 2, np.nan])


def test_a_gradient_that_does_not_exist_has_no_elements(make_monitor):
    monitor, keep = make_monitor()
    monitor.record(gradients=[np.ones(2), None], variables=[np.ones(2), np.ones(3)])
    monitor.close()
    assert paths(keep.readings[0], Kind.GRADIENT) == ["0", "1"]
    assert_no_elements(keep.readings[0], Kind.GRADIENT, "1")


def test_gradients_alone_give_the_names(make_monitor):
    monitor, keep = make_monitor()
    monitor.record(gradients={"x": np.ones(2), "y": None})
    monitor.record(gradients=np.ones(2))
    monitor.close()
    assert keep.readings[0].sites == (Site(Kind.GRADIENT, "x"),)
    assert keep.readings[1].sites == (Site(Kind.GRADIENT, "variable"),)


def test_names_can_be_given(make_monitor):
    monitor, keep = make_monitor()
    monitor.record(gradients=[np.ones(2)], variables=[np.ones(2)], names=["enc/w"])
    monitor.close()
    assert paths(keep.readings[0], Kind.GRADIENT) == ["enc/w"]


def test_clipped_gradients_are_recorded_as_applied(make_monitor):
    monitor, keep = make_monitor(watch=[gradwatch.gradients(), gradwatch.applied_gradients()])
    clipped = {"a": {"w": np.array([0.1, 0.0])}, "b": {"w": np.array([[-0.1]])}}
    monitor.record(gradients=G, applied_gradients=clipped, variables=W)
    monitor.close()
    assert_measured(keep.readings[0], Kind.GRADIENT, {"a/w": [0.5, 0.0], "b/w": [[-1.5]]})
    assert_measured(keep.readings[0], Kind.APPLIED_GRADIENT, {"a/w": [0.1, 0], "b/w": [[-0.1]]})


def test_updates_without_their_previous_values_are_remarked_on(make_monitor):
    monitor, _ = make_monitor(watch=[gradwatch.gradients(), gradwatch.updates()])
    with pytest.warns(gradwatch.GradwatchWarning, match="Give previous="):
        monitor.record(gradients=G, variables=W)
    monitor.close()


def test_outputs_of_layers_which_a_loop_does_not_show_are_remarked_on(make_monitor):
    monitor, _ = make_monitor(watch=[gradwatch.gradients(), gradwatch.outputs()])
    with pytest.warns(gradwatch.GradwatchWarning, match="watch outputs, but .* Give outputs="):
        monitor.record(gradients=G, variables=W)
    monitor.close()


def test_a_fault_of_ours_does_not_stop_the_loop(make_monitor, monkeypatch):
    from gradwatch.capture.loop import StepArguments

    def broken(_):
        raise KeyError("a bug")

    monkeypatch.setattr(StepArguments, "parse", broken)
    monitor, keep = make_monitor()
    with pytest.warns(gradwatch.GradwatchWarning, match="a bug"):
        monitor.record(gradients=G, variables=W)
    readings = monitor.measure(gradients=G)  # Said once, not again.
    assert readings == {}
    monitor.record(readings)
    monitor.close()
    assert keep.readings == []


MISTAKES = {
    "nothing": ({}, TypeError, "given nothing"),
    "positional tensors": ({"readings": [1.0]}, TypeError, r"measure\(\).*by name"),
    "readings and tensors": ({"readings": {}, "gradients": G}, TypeError, "not both"),
    "two names for one": ({"variables": W, "parameters": W}, TypeError, "Give one"),
    "lengths": (
        {"gradients": [np.ones(2)], "variables": [np.ones(2), np.ones(3)]},
        ValueError,
        "gradients has 1 entries, but there are 2 variables",
    ),
    "order": (
        {"gradients": [np.ones(2), np.ones(3)], "variables": [np.ones(3), np.ones(2)]},
        ValueError,
        r"gradients \[0\] has the shape \(2,\), but '0'.*same order",
    ),
    "unknown key": (
        {"gradients": {"a": {"v": np.ones(2)}}, "variables": W},
        ValueError,
        "gradients.*'a/v'.*There are: a/w, b/w",
    ),
    "no tensor": ({"gradients": {"w": "x"}, "variables": {"w": np.ones(1)}}, TypeError, "str"),
    "no variable": ({"variables": "model"}, TypeError, "Received: 'model'"),
    "no variables": ({"gradients": [], "variables": []}, ValueError, "no variable"),
    "previous alone": ({"gradients": G, "previous": W}, TypeError, "needs variables="),
    "vector loss": ({"loss": np.ones(4)}, ValueError, r"one number.*shape=\(4,\)"),
    "loss in words": ({"loss": "low"}, TypeError, "str"),
    "step": ({"gradients": G, "step": 1.5}, TypeError, "step= is a whole number.*float"),
    "negative step": ({"gradients": G, "step": -1}, ValueError, "step=-1"),
    "epoch": ({"gradients": G, "epoch": "one"}, TypeError, "epoch= is a whole number"),
    "group": ({"gradients": G, "group": 3}, TypeError, "group= is a name"),
    "empty group": ({"gradients": G, "group": "/"}, ValueError, "neither empty"),
    "names": ({"gradients": [np.ones(1)], "names": ["a", "b"]}, ValueError, "2 entries for 1"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_raised_with_its_remedy(make_monitor, mistake):
    arguments, error, message = MISTAKES[mistake]
    monitor, _ = make_monitor()
    with pytest.raises(error, match=message):
        monitor.record(**arguments)
    monitor.close()


def test_tensors_of_two_frameworks_in_one_call_are_refused(make_monitor):
    import jax.numpy as jnp
    import torch

    monitor, _ = make_monitor()
    with pytest.raises(TypeError, match=r"Received: (jax and torch|torch and jax)"):
        monitor.record(gradients=[jnp.ones(1)], variables=[torch.ones(1)])
    monitor.close()


def test_a_selector_that_matches_nothing_is_heard_of_at_the_first_record(make_monitor):
    monitor, _ = make_monitor(layers=["alpha"], every=100)
    with pytest.raises(ValueError, match=r"'alpha'\) matched none of 2 variables.*a/w"):
        monitor.record(gradients=G, variables=W)
    monitor.close()


def test_two_monitors_of_one_loop_do_not_fight_for_a_directory(tmp_path):
    first, second = (
        gradwatch.Monitor(tmp_path / "run", every=1, sinks=[gradwatch.CSV()]) for _ in range(2)
    )
    slopes = {"w": np.ones(1)}
    first.record(gradients=slopes)
    with pytest.warns(gradwatch.GradwatchWarning, match=r"step 1 on already.* Writing to .*run-2"):
        second.record(gradients=slopes)
    for monitor in (first, second, first, second):
        monitor.record(gradients=slopes)
    first.close()
    second.close()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run", "run-2"]
    lines = [
        len((tmp_path / d / "summaries.csv").read_text().splitlines()) for d in ("run", "run-2")
    ]
    assert lines == [1 + 3, 1 + 3]


def test_a_loop_that_nobody_closes_is_written_out_at_exit(tmp_path):
    code = """
import sys, numpy as np, gradwatch
gradwatch.util.exits.PATIENCE = 60.0  # A busy machine may take longer than users are made to wait.
monitor = gradwatch.Monitor(sys.argv[1], every=1)
monitor.record(gradients={"w": np.array([3.0, 4.0])}, loss=0.125)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(tmp_path / "run")],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        env={**os.environ, "COLUMNS": "100"},
    )
    assert "epoch 1 · step 1 · loss 0.125" in done.stdout
    assert "5.00" in done.stdout
    assert {row[:2] for row in written(tmp_path / "run").rows} == {
        ("gradient", "w"),
        ("loss", "loss"),
    }


def test_recording_numpy_arrays_imports_no_framework(tmp_path):
    program = """
import sys, numpy as np, gradwatch
monitor = gradwatch.Monitor(sys.argv[1], every=1)
weights = {"w": np.array([3.0, 4.0])}
monitor.record(gradients=weights, variables=weights, outputs={"a": np.ones((2, 3))}, loss=0.125)
monitor.close()
print(*{"jax", "tensorflow", "torch", "keras"} & set(sys.modules))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "run")],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": SOURCES},
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "", done.stdout
