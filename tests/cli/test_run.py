"""`gradwatch run`: a script is trained to its end, and recorded."""

from __future__ import annotations

import os
import subprocess

import pytest

import gradwatch
from tests.cli.support import command

TORCH = """
import sys, torch
from torch.nn.utils import clip_grad_norm_
torch.manual_seed(0)
print("given", *sys.argv[1:])
net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu")
x = torch.randn(512, 8)
for step in range(60):
    optimizer.zero_grad()
    for part in range(2):
        batch = x[32 * ((2 * step + part) % 16):][:32]
        loss = (net(batch) - batch.sum(1, keepdim=True)).square().mean() / 2
        scaler.scale(loss).backward()
        print("loss", step + 1, loss.item())
    scaler.unscale_(optimizer)
    clip_grad_norm_(net.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
print("came to its end")
if "--fail" in sys.argv:
    sys.exit(7)
"""


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.run(
        command("run", *arguments), text=True, capture_output=True, env=environment
    )


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(TORCH)
    return path


def test_a_script_is_trained_to_its_end_and_recorded(tmp_path, script):
    ran = run("--directory", tmp_path / "run", "--every", 1, script, "a", "--every", 5)
    assert ran.returncode == 0, ran.stderr
    said = ran.stdout.splitlines()
    assert said[0] == "given a --every 5"
    assert "came to its end" in said
    assert any(line.startswith("train.py: ") and "60 training steps" in line for line in said)
    losses: dict[int, float] = {}
    for line in said:
        if line.startswith("loss "):
            _, step, loss = line.split()
            losses[int(step)] = losses.get(int(step), 0.0) + float(loss)
    opened = gradwatch.open(tmp_path / "run")
    recorded = dict(opened.sql("select step, value from losses").fetchall())
    assert recorded == pytest.approx(losses, rel=1e-6)
    kinds = {row[0] for row in opened.sql("select distinct kind from summaries").fetchall()}
    assert {"gradient", "applied_gradient", "weight", "update"} <= kinds


def test_the_exit_code_is_that_of_the_script(tmp_path, script):
    assert run("--directory", tmp_path / "run", script, "--fail").returncode == 7
    script.write_text("raise RuntimeError('of the script')")
    ran = run(script)
    assert ran.returncode == 1
    assert "RuntimeError: of the script" in ran.stderr
    assert "No training was seen" in ran.stdout
