"""The code in docs/trainers.md runs, block by block, and makes the runs that it names."""

import re
from pathlib import Path

import lightning as L  # noqa: N812
import pytest
import torch
from accelerate import Accelerator
from transformers import Trainer, TrainingArguments

import gradwatch
from tests.integrations.test_lightning import Net
from tests.integrations.test_lightning import data as batches
from tests.integrations.test_transformers import make_bert, samples

PAGE = Path(__file__).parents[2] / "docs" / "trainers.md"
pytestmark = pytest.mark.filterwarnings("default")


def test_the_blocks_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    arguments = TrainingArguments("out", max_steps=2, use_cpu=True, report_to=[])
    bert = {"Trainer": Trainer, "model": make_bert(), "args": arguments, "data": samples()}
    one = L.pytorch.Trainer

    class Brief(one):
        def __init__(self, **options):
            super().__init__(max_steps=2, accelerator="cpu", logger=False, **options)

    monkeypatch.setattr(L, "Trainer", Brief)
    net = torch.nn.Linear(4, 1)
    prepared = {
        "gradwatch": gradwatch,
        "accelerator": Accelerator(cpu=True),
        "model": net,
        "optimizer": torch.optim.SGD(net.parameters(), lr=0.1),
        "data": batches(),
    }
    lit = {"L": L, "module": Net(), "data": batches()}
    for code, names in zip(blocks, (bert, lit, prepared), strict=True):
        exec(compile(code, "trainers.md", "exec"), names)
    prepared["accelerator"].backward(prepared["model"](torch.ones(2, 4)).sum())
    prepared["optimizer"].step()
    prepared["monitor"].close()
    for name in ("bert", "lit", "accelerated"):
        run = gradwatch.open(f"runs/{name}")
        assert run.sql("select count(*) from summaries where kind = 'gradient'").fetchall()[0][0]
