"""Two processes with `jax.distributed`, on CPUs: what they record, and that they never hang."""

import json
import subprocess
import sys

import numpy as np
import pytest

import gradwatch
from gradwatch import Kind, Site
from gradwatch.measure.numpy import summarize
from tests.distributed.jax.models import FULL, MODELS
from tests.distributed.jax.processes import ROOT, environment, run_workers
from tests.distributed.jax.training import assert_same_summaries

ALONE = """
import sys, gradwatch
from tests.distributed.jax.models import FULL, MODELS
from tests.distributed.jax.training import fit
monitor = gradwatch.Monitor(sys.argv[1], every=1, sinks=[gradwatch.Store()])
fit(MODELS["batch_norm"](), [monitor])
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of the trainings of two processes, and of one on a single device."""
    folder = tmp_path_factory.mktemp("two")
    alone = [sys.executable, "-c", ALONE, str(folder / "single")]
    with subprocess.Popen(alone, env=environment(), cwd=ROOT) as single:
        ended = run_workers(folder, "all", timeout=400)
        assert single.wait(400) == 0
    assert [code for code, _ in ended] == [0, 0], "\n".join(text[-3000:] for _, text in ended)
    return folder


def weights(folder, rank, name):
    arrays = np.load(folder / f"{rank}.npz")
    return [arrays[key] for key in sorted(arrays) if key.startswith(f"{name}/")]


def said(folder, rank, name):
    return " ".join(json.loads((folder / f"{rank}.json").read_text())[name])


def readings(directory):
    with gradwatch.open(directory) as run:
        return list(run.readings())


def test_summaries_are_those_of_a_single_device_with_the_whole_batch(trained):
    found, expected = readings(trained / "watched"), readings(trained / "single")
    assert_same_summaries(found, expected, MODELS["batch_norm"]())
    assert said(trained, 0, "watched") == said(trained, 1, "watched") == ""


def test_only_the_first_process_writes(trained):
    with gradwatch.open(trained / "watched") as run:
        assert list(run.ranks) == [0]


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("watched", "bare"),
        ("unwritable", "bare_plain"),
        ("differing", "bare_plain"),
        ("alone", "bare_plain"),
    ],
)
def test_training_ends_with_the_weights_that_it_has_without_a_monitor(trained, name, bare):
    for rank in (0, 1):
        pairs = zip(weights(trained, rank, name), weights(trained, rank, bare), strict=True)
        for a, b in pairs:
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_a_process_that_cannot_write_does_not_hold_up_the_others(trained):
    assert "Cannot write to" in said(trained, 0, "unwritable")
    assert said(trained, 1, "unwritable") == ""


def test_a_process_without_a_monitor_or_with_another_one_keeps_all_from_measuring(trained):
    assert "process 1 of 2 has no monitor" in said(trained, 0, "alone")
    for rank in (0, 1):
        assert "measures other things, or at other times" in said(trained, rank, "differing")
    assert not (trained / "alone").exists() or readings(trained / "alone") == []


def test_a_loop_over_arrays_of_all_processes_records_the_whole_arrays(trained):
    w = np.arange(32, dtype="float64").reshape(8, 4)
    for reading in readings(trained / "loop"):
        gradient = 2 * w if reading.step < 4 else w
        if reading.step < 4:
            w = w - 0.125 * gradient
        for kind, true in ((Kind.GRADIENT, gradient), (Kind.WEIGHT, w)):
            row = reading.summary.pack()[reading.position[Site(kind, "w")]]
            np.testing.assert_allclose(row, summarize(true), rtol=1e-6)
    assert [reading.step for reading in readings(trained / "loop")] == [1, 2, 3, 4]


@pytest.mark.skipif(not FULL, reason="GRADWATCH_DISTRIBUTED=full; JAX misses a process late")
def test_what_was_recorded_before_a_process_was_killed_can_be_read(tmp_path):
    (first, text), (second, _) = run_workers(tmp_path, "killed", timeout=300)
    assert second == 9
    assert first != 0, text[-2000:]  # JAX ends the others.
    assert [reading.step for reading in readings(tmp_path / "run")] == [1, 2]
