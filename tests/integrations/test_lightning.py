"""The callback for the `Trainer` of Lightning."""

import copy
import math
import warnings

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.plugins.precision import MixedPrecision

import gradwatch
from gradwatch import Kind
from gradwatch.integrations.lightning import GradwatchCallback
from tests.integrations.trainer_truth import assert_norms, clipped, norms, numbers
from tests.loop.support import Keep

MOST = 0.05
pytestmark = pytest.mark.filterwarnings("default")


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Linear(4, 8)
        self.last = torch.nn.Linear(8, 1)
        self.models, self.batches = {}, {}

    def loss(self, x, y):
        return (self.last(torch.tanh(self.first(x))) - y).square().mean()

    def training_step(self, batch, index):
        step = self.global_step + 1
        if step not in self.models:
            noted, self.models, self.batches = (self.models, self.batches), {}, {}
            trainer, self._trainer = self._trainer, None
            wide = copy.deepcopy(self).double()
            self._trainer, (self.models, self.batches) = trainer, noted
            self.models[step] = wide
        self.batches.setdefault(step, []).append(batch)
        return self.loss(*batch)

    def validation_step(self, batch, index):
        self.log("val_loss", self.loss(*batch))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def data(count=64):
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(count, 4, generator=draw)
    return torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), batch_size=2
    )


@pytest.fixture
def train(tmp_path):
    def run(*callbacks, net=None, resume=None, **arguments):
        arguments = {
            "max_steps": 4,
            "accumulate_grad_batches": 4,
            "gradient_clip_val": MOST,
            "accelerator": "cpu",
            "logger": False,
            "enable_checkpointing": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "default_root_dir": tmp_path,
            "limit_val_batches": 0,
        } | arguments
        net = Net() if net is None else net
        trainer = pl.Trainer(callbacks=list(callbacks), **arguments)
        trainer.fit(net, data(), data(8), ckpt_path=resume)
        return trainer, net

    return run


def gradients_of(model, batches):
    model.zero_grad()
    for x, y in batches:
        (model.loss(x.double(), y.double()) / len(batches)).backward()
    return {n.replace(".", "/"): p.grad.numpy() for n, p in model.named_parameters()}


def watching(directory, keep):
    both = [gradwatch.gradients(), gradwatch.applied_gradients()]
    return GradwatchCallback(directory, every=1, watch=both, sinks=[keep])


@pytest.mark.parametrize("by", ["norm", "value"])
def test_gradients_before_and_after_clipping_are_those_of_float64_autograd(tmp_path, train, by):
    keep = Keep()
    _, net = train(watching(tmp_path / "run", keep), gradient_clip_algorithm=by)
    before, after = norms(keep, Kind.GRADIENT), norms(keep, Kind.APPLIED_GRADIENT)
    assert list(before) == list(after) == [1, 2, 3, 4]
    for step, model in net.models.items():
        slopes = gradients_of(model, net.batches[step])
        assert len(net.batches[step]) == 4
        assert_norms(before[step], slopes)
        if by == "norm":
            assert_norms(after[step], clipped(slopes, MOST))
        else:
            assert_norms(after[step], {n: g.clip(-MOST, MOST) for n, g in slopes.items()})


def test_with_a_loss_scaler_gradients_and_losses_are_unscaled(tmp_path, train):
    keep, seen = Keep(), {}

    class Seen(pl.Callback):
        def on_before_optimizer_step(self, trainer, module, optimizer):
            # Lightning has unscaled, and not yet clipped them.
            seen[trainer.global_step + 1] = {
                n.replace(".", "/"): p.grad.double().numpy().copy()
                for n, p in module.named_parameters()
            }

    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
    plugin = MixedPrecision("16-mixed", "cpu", scaler)
    _, net = train(watching(tmp_path / "run", keep), Seen(), plugins=[plugin])
    before, after = norms(keep, Kind.GRADIENT), norms(keep, Kind.APPLIED_GRADIENT)
    assert list(before) == [1, 2, 3, 4]
    for step, slopes in seen.items():
        assert_norms(before[step], slopes)
        assert_norms(after[step], clipped(slopes, MOST))
    losses = {r.step: r.losses()["loss"] for r in keep.readings if r.losses()}
    for step, model in net.models.items():
        true = sum(model.loss(x.double(), y.double()).item() for x, y in net.batches[step]) / 4
        assert losses[step] == pytest.approx(true, rel=1e-2)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_training_is_bit_identical_with_and_without(tmp_path, train, precision):
    options = {"max_steps": 50, "accumulate_grad_batches": 1, "precision": precision}
    _, bare = train(**options)
    _, watched = train(GradwatchCallback(tmp_path / "run", every=2), **options)
    for a, b in zip(bare.parameters(), watched.parameters(), strict=True):
        assert torch.equal(a, b)
    assert len(numbers(tmp_path / "run", "loss")["loss"]) == 50


def test_loss_epoch_and_validation_are_recorded(tmp_path, train):
    callback = GradwatchCallback(tmp_path / "run", every=1)
    trainer, net = train(callback, max_steps=16, limit_val_batches=1.0)
    losses = numbers(tmp_path / "run", "loss")["loss"]
    assert list(losses) == list(range(1, 17))
    for step in (1, 16):
        true = sum(
            net.models[step].loss(x.double(), y.double()).item() for x, y in net.batches[step]
        )
        assert losses[step] == pytest.approx(true / 4, rel=1e-5)
    validated = numbers(tmp_path / "run", "metric")["val_loss"]
    assert list(validated) == [8, 16]
    assert validated[16] == pytest.approx(float(trainer.callback_metrics["val_loss"]))
    epochs = gradwatch.open(tmp_path / "run").sql(
        "select distinct step, epoch from summaries where kind = 'gradient' order by step"
    )
    assert [epoch for _, epoch in epochs.fetchall()] == [1] * 8 + [2] * 8


def test_a_nan_is_reported_as_a_warning_and_stops_the_trainer(tmp_path, train):
    class Planting(pl.Callback):
        def on_train_batch_start(self, trainer, module, batch, index):
            if trainer.global_step == 4:
                with torch.no_grad():
                    module.last.weight[0, 0] = math.nan

    callback = GradwatchCallback(tmp_path / "run", stop_on="error")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer, _ = train(Planting(), callback, max_steps=200)
    assert trainer.global_step < 200
    worst = callback.monitor.findings[0]
    assert (worst.rule, worst.severity) == ("non-finite", "error")
    assert math.isnan(numbers(tmp_path / "run", "loss")["loss"][5])
    assert any("last" in str(each.message) for each in caught)


def test_a_resumed_training_continues_the_run(tmp_path, train):
    run, checkpoint = tmp_path / "run", tmp_path / "last.ckpt"
    trainer, _ = train(GradwatchCallback(run, every=1), max_steps=2)
    trainer.save_checkpoint(checkpoint)
    train(GradwatchCallback(run, every=1), max_steps=4, resume=checkpoint)
    assert list(numbers(run, "loss")["loss"]) == [1, 2, 3, 4]
    assert not (tmp_path / "run-2").exists()


def test_several_optimizers_have_a_group_each(tmp_path, train):
    class Two(Net):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, index):
            for optimizer, factor in zip(self.optimizers(), (1.0, 10.0), strict=True):
                optimizer.zero_grad()
                loss = factor * self.loss(*batch)
                self.manual_backward(loss)
                optimizer.step()

        def configure_optimizers(self):
            parts = (self.first, self.last)
            return [torch.optim.SGD(part.parameters(), lr=1e-3) for part in parts]

    callback = GradwatchCallback(tmp_path / "run", every=1)
    options = {"accumulate_grad_batches": 1, "gradient_clip_val": None}
    train(callback, net=Two(), max_steps=8, **options)
    losses = numbers(tmp_path / "run", "loss")
    first, last = losses["optimizer_0/loss"], losses["optimizer_1/loss"]
    assert list(first) == list(last) == [1, 2, 3, 4]
    assert 5 < last[1] / first[1] < 20


def test_steps_of_several_optimizers_go_on_where_a_checkpoint_was_saved(tmp_path, train):
    class Two(Net):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, index):
            both = zip(self.optimizers(), (self.first, self.last), strict=True)
            for i, (optimizer, _) in enumerate(both):
                optimizer.zero_grad()
                self.manual_backward(self.loss(*batch))
                if index % (i + 1) == 0:
                    optimizer.step()

        def configure_optimizers(self):
            parts = (self.first, self.last)
            return [torch.optim.SGD(part.parameters(), lr=1e-3) for part in parts]

    options = {"accumulate_grad_batches": 1, "gradient_clip_val": None}
    one, other = [GradwatchCallback(tmp_path / name, every=1) for name in ("a", "b")]
    trainer, _ = train(one, other, net=Two(), max_steps=6, **options)
    trainer.save_checkpoint(tmp_path / "last.ckpt")
    again = GradwatchCallback(tmp_path / "a", every=1)
    train(again, net=Two(), max_steps=12, resume=tmp_path / "last.ckpt", **options)
    losses = numbers(tmp_path / "a", "loss")
    assert list(losses["optimizer_0/loss"]) == list(range(1, 9))
    assert list(losses["optimizer_1/loss"]) == list(range(1, 5))
    assert list(numbers(tmp_path / "b", "loss")["optimizer_0/loss"]) == [1, 2, 3, 4]


def test_an_optimizer_of_another_module_is_a_warning_and_training_goes_on(tmp_path, train):
    class Foreign(Net):
        def configure_optimizers(self):
            return torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1)

    callback = GradwatchCallback(tmp_path / "run", every=1)
    with pytest.warns(UserWarning, match="none of the parameters"):
        trainer, _ = train(callback, net=Foreign(), max_steps=3)
    assert trainer.global_step == 3
    assert not (tmp_path / "run").exists()


def compiled_net():
    net = Net()
    # Copies of the model for the truth cannot be made inside compiled code.
    net.models = dict.fromkeys(range(1, 9))
    return torch.compile(net, backend="eager")


def test_a_compiled_module_is_recorded(tmp_path, train):
    keep = Keep()
    _, bare = train(net=compiled_net(), max_steps=3)
    _, watched = train(watching(tmp_path / "run", keep), net=compiled_net(), max_steps=3)
    assert list(norms(keep, Kind.GRADIENT)) == [1, 2, 3]
    for a, b in zip(bare.parameters(), watched.parameters(), strict=True):
        assert torch.equal(a, b)


def test_with_deepspeed_nothing_is_recorded_and_a_warning_says_so(tmp_path):
    strategy = type("DeepSpeedStrategy", (), {})()
    trainer = type("Trainer", (), {"strategy": strategy, "global_step": 1})()
    callback = GradwatchCallback(tmp_path / "run")
    with pytest.warns(UserWarning, match="DeepSpeed"):
        callback.on_train_start(trainer, None)
    callback.on_train_batch_start(trainer, None)
    callback.on_train_batch_end(trainer, None)
    callback.on_train_end(trainer, None)
    assert not (tmp_path / "run").exists()
