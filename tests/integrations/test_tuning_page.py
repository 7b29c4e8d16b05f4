"""The searches of docs/tuning.md: each trial is a run, with its settings and its losses."""

import math
import os
import re
from pathlib import Path

import numpy as np
import pytest

import gradwatch

PAGE = Path(__file__).parents[2] / "docs" / "tuning.md"


@pytest.fixture
def blocks(tmp_path, monkeypatch):
    """Runs the block of the page that has a word; what it leaves, and what it printed is there."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    names = {
        "x": rng.normal(size=(64, 8)).astype("f"),
        "y": rng.normal(size=(64, 1)).astype("f"),
        "gradwatch": gradwatch,
    }

    def run(word):
        found = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
        (code,) = [block for block in found if word in block]
        exec(compile(code, PAGE.name, "exec"), names)
        return names

    return run


@pytest.mark.any_backend
@pytest.mark.filterwarnings("ignore")  # KerasTuner's own
def test_the_trials_of_kerastuner_are_runs(blocks, capsys):
    pytest.importorskip("keras_tuner", reason="KerasTuner is not installed: keras-tuner")
    trials = blocks("import keras_tuner")["search"].oracle.trials
    assert len(trials) == 3
    runs = gradwatch.open("runs")
    assert set(runs.names) == {f"trial-{name}" for name in trials}
    for name, trial in trials.items():
        run = runs[f"trial-{name}"]
        assert run.facts["config"] == trial.hyperparameters.values
        _, scores = run.epoch_metrics()["val_loss"]
        assert scores.min() == pytest.approx(trial.score, rel=1e-6)
    capsys.readouterr()
    blocks("gradwatch.diagnose")
    assert len(capsys.readouterr().out.splitlines()) == 3


@pytest.mark.slow
@pytest.mark.any_backend
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_the_trials_of_ray_tune_are_runs(blocks, tmp_path, monkeypatch, capsys):
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'ray[tune]'")
    pytest.importorskip("ray.tune", reason="Ray Tune is not installed: pip install 'ray[tune]'")
    monkeypatch.setenv("HOME", str(tmp_path))
    ray.init(
        num_cpus=1,
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
        runtime_env={"env_vars": {"KERAS_BACKEND": os.environ["KERAS_BACKEND"]}},
    )
    try:
        results = blocks("from ray import tune")["results"]
    finally:
        ray.shutdown()
    runs = gradwatch.open("runs")
    losses = {result.config["rate"]: result.metrics["loss"] for result in results}
    assert len(runs.names) == len(losses) == 3
    for run in runs:
        rate = run.facts["config"]["rate"]
        _, recorded = run.epoch_metrics()["loss"]
        assert recorded[-1] == pytest.approx(losses[rate], rel=1e-6)
        assert math.isfinite(recorded[-1])
    capsys.readouterr()
    blocks("gradwatch.diagnose")
    ill = [line for line in capsys.readouterr().out.splitlines() if not line.endswith("well")]
    assert len(ill) == 1
    assert "learning rate is too high" in ill[0]
