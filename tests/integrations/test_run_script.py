"""Scripts under the monitor: trained as without it, and ended as without it."""

import runpy

import pytest

import gradwatch
from gradwatch.integrations.checking import ScriptTraining, run_script

ENDING = """
import hashlib
numbers = b"".join(p.detach().cpu().numpy().tobytes() for p in parameters)
# In one write: two processes may share a stream.
print(f"HASH {hashlib.md5(numbers).hexdigest()}\\n", end="", flush=True)
"""
SCRIPTS = {
    "transformers": """
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
torch.manual_seed(0)
model = BertForSequenceClassification(BertConfig(
    vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
    intermediate_size=16, max_position_embeddings=8))
data = [{"input_ids": torch.randint(0, 20, (6,)), "labels": torch.tensor(i % 2)} for i in range(64)]
arguments = TrainingArguments(
    FOLDER, per_device_train_batch_size=4, gradient_accumulation_steps=2, max_steps=6, use_cpu=True,
    report_to=[], save_strategy="no", disable_tqdm=True, dataloader_pin_memory=False)
if __name__ == "__main__":
    Trainer(model, arguments, train_dataset=data).train()
    parameters = model.parameters()
""",
    "lightning": """
import lightning.pytorch as pl, torch
from torch.utils.data import DataLoader, TensorDataset
class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        return (self.inner(batch[0]) - batch[0].sum(1, keepdim=True)).square().mean()
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)
torch.manual_seed(0)
net, data = Net(), DataLoader(TensorDataset(torch.randn(96, 4)), 16)
pl.Trainer(max_steps=6, accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False, default_root_dir=FOLDER).fit(net, data)
parameters = net.parameters()
""",
    "keras": """
import keras, numpy as np
keras.utils.set_random_seed(0)
layers = [keras.layers.Dense(8, "relu"), keras.layers.Dropout(0.5), keras.layers.Dense(1)]
model = keras.Sequential([keras.Input((4,)), *layers])
model.compile("adam", "mse")
x = np.random.default_rng(0).normal(size=(24, 4)).astype("float32")
model.fit(x, x.sum(1), batch_size=8, epochs=2, verbose=0)
parameters = [v.value for v in model.trainable_variables]
""",
    "workers": """
import argparse, torch
from torch.utils.data import DataLoader, Dataset
class Numbers(Dataset):
    def __len__(self):
        return 48
    def __getitem__(self, index):
        return torch.full((4,), float(index) / 48)
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int)
    workers = parser.parse_args(["--workers", "2"]).workers
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(2):
        for batch in DataLoader(Numbers(), 16, num_workers=workers):
            optimizer.zero_grad()
            net(batch).square().mean().backward()
            optimizer.step()
    return net.parameters()
if __name__ == "__main__":
    parameters = main()
""",
}
TWO = """
import torch
torch.manual_seed(0)
first, second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
optimizers = [torch.optim.SGD(part.parameters(), lr=0.1) for part in (first, second)]
for step in range(6):
    loss = second(first(torch.ones(3, 2))).square().mean()
    for each in optimizers:
        each.zero_grad()
    loss.backward()
    for each in optimizers:
        each.step()
parameters = [*first.parameters(), *second.parameters()]
"""


@pytest.fixture
def script(tmp_path):
    def write(text):
        path = tmp_path / "train.py"
        path.write_text(f"FOLDER = {str(tmp_path / 'out')!r}\n{text}")
        return path

    return write


def hash_of(said):
    return next(line for line in said.splitlines() if line.startswith("HASH"))


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_trained_bit_for_bit_as_without_the_monitor(tmp_path, script, capsys, name):
    path = script(SCRIPTS[name] + ENDING)
    runpy.run_path(str(path), run_name="__main__")
    bare = hash_of(capsys.readouterr().out)
    outcome = run_script(path, [], ScriptTraining(tmp_path / "run", every=1))
    assert hash_of(capsys.readouterr().out) == bare
    assert (outcome.exit_code, outcome.failure, outcome.steps) == (0, "", 6)
    steps = gradwatch.open(tmp_path / "run").sql(
        "select distinct step from summaries where kind = 'gradient' order by step"
    )
    assert [step for (step,) in steps.fetchall()] == [1, 2, 3, 4, 5, 6]


def test_each_optimizer_has_a_run_and_the_losses(tmp_path, script):
    outcome = run_script(script(TWO), [], ScriptTraining(tmp_path / "run", every=1))
    assert outcome.steps == 12
    of_first, of_second = (gradwatch.open(tmp_path / "run" / each) for each in ("", "model-2"))
    assert of_first.series("loss", "loss", "value")[1] == pytest.approx(
        of_second.series("loss", "loss", "value")[1]
    )
    assert len(of_first.series("gradient", "weight", "l2")[0]) == 6


@pytest.mark.parametrize(
    ("end", "code", "printed"),
    [
        ("sys.exit()", 0, ""),
        ("sys.exit(0)", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit(True)", 1, ""),
        ("sys.exit('the reason')", 1, "the reason\n"),
        ("raise KeyboardInterrupt", 130, "in <module>\n    raise KeyboardInterrupt\n"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero\n"),
    ],
)
def test_a_script_ends_as_without_the_monitor(tmp_path, script, capsys, end, code, printed):
    path = script(f"import sys\n{end}\n")
    outcome = run_script(path, [], ScriptTraining(tmp_path / "run"))
    said = capsys.readouterr().err
    assert outcome.exit_code == code
    assert printed in said
    assert "gradwatch" not in said.replace(str(path), "")
    assert "runpy" not in said


def test_a_module_runs_as_by_python_m(tmp_path, monkeypatch, capsys):
    package = tmp_path / "trained_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "sizes.py").write_text("COUNT = 3")
    (package / "train.py").write_text(
        "import pickle, sys\nfrom .sizes import COUNT\nclass Data: pass\npickle.dumps(Data())\n"
        "print(__name__, __package__, COUNT, sys.argv)\n"
    )
    monkeypatch.chdir(tmp_path)
    run_script("trained_package.train", ["--flag"], ScriptTraining(tmp_path / "run"))
    said = capsys.readouterr().out.strip()
    assert said == f"__main__ trained_package 3 {[str(package / 'train.py'), '--flag']}"
