"""`gradwatch check`: a script is run as it is, for some steps, and judged."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.support import command, strict
from tests.variants import rarely

TORCH = """
import sys, torch
torch.manual_seed(0)
print("given", *sys.argv[1:])
net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
if "dead" in sys.argv:
    torch.nn.init.constant_(net[0].bias, -100.0)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(512, 8)
for step in range(10_000):
    batch = x[32 * (step % 16):][:32]
    optimizer.zero_grad()
    loss = (net(batch) - batch.sum(1, keepdim=True)).square().mean()
    loss.backward()
    optimizer.step()
    if "raise" in sys.argv and step == 5:
        raise RuntimeError("of the script")
print("came to its end")
"""
KERAS = """
import os
os.environ["KERAS_BACKEND"] = "torch"
import keras, numpy as np
x = np.random.default_rng(0).normal(size=(320, 8)).astype("float32")
x[100] = np.nan
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1, name="answer")], name="net")
model.compile("sgd", "mse")
model.fit(x, x[:, :1], 32, 1000, 0, shuffle=False)
print("came to its end")
"""


def check(script: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.pop("KERAS_BACKEND", None)
    return subprocess.run(
        command("check", *arguments), text=True, capture_output=True, env=environment
    )


@pytest.fixture
def torch_script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(TORCH)
    return path


def test_a_torch_script_that_trains_is_healthy_and_ended_after_its_steps(torch_script):
    ran = check(torch_script, "--steps", 40, torch_script, "a", "--b")
    assert ran.returncode == 0, ran.stderr
    said = ran.stdout.splitlines()
    assert said[:3] == ["given a --b", "", "train.py: healthy (40 training steps)"]
    assert said[3].startswith("verdict: ")
    assert len(said) == 4


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        (("SCRIPT", "--steps", 30, "a", "--b"), "given a --b"),
        *rarely(
            (("SCRIPT", "--b", "--steps=30"), "given --b"),
            (("--steps", 30, "SCRIPT", "a", "--", "--steps", 9), "given a --steps 9"),
            (("--steps", 30, "--", "SCRIPT", "--steps", 9), "given --steps 9"),
        ),
    ],
)
def test_options_are_ours_before_and_after_the_script_unless_after_two_dashes(
    torch_script, arguments, given
):
    ran = check(torch_script, *(torch_script if a == "SCRIPT" else a for a in arguments))
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[:3] == [given, "", "train.py: healthy (30 training steps)"]


def test_a_torch_script_with_dead_units_ends_with_2(torch_script):
    ran = check(torch_script, "--steps", 40, torch_script, "dead")
    assert ran.returncode == 2
    assert "error: 100% of the units of 1 are dead" in ran.stdout
    assert "came to its end" not in ran.stdout


def test_a_script_that_fails_is_said_to_have_failed(torch_script):
    ran = check(torch_script, torch_script, "raise")
    assert ran.returncode == 2
    assert "The script failed. RuntimeError: of the script" in ran.stdout
    assert "Traceback" in ran.stderr


def test_a_script_without_training_is_said_to_have_none(tmp_path):
    path = tmp_path / "idle.py"
    path.write_text("print('idle')")
    ran = check(path, path)
    assert ran.returncode == 2
    assert "No training was seen" in ran.stdout


def test_a_keras_script_is_watched_in_its_fit_without_being_edited(tmp_path):
    path = tmp_path / "fit.py"
    path.write_text(KERAS)
    ran = check(path, "--steps", 12, "--json", "--directory", tmp_path / "run", path)
    assert ran.returncode == 2, ran.stderr
    facts = strict(ran.stdout[ran.stdout.index('{\n "script"') :])
    assert facts["steps"] == 12
    root = facts["findings"][0]
    assert (root["rule"], root["since"]) == ("non-finite", 4)
    assert root["sites"][0] == ["input", "input"]
    assert (tmp_path / "run" / "run.json").exists()
