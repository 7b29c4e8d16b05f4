"""The callback for the `Trainer` of transformers."""

import copy
import logging
import math

import numpy as np
import pytest
import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

import gradwatch
from gradwatch import Kind
from gradwatch.compat.versions import numbers_of
from gradwatch.integrations.transformers import GradwatchCallback
from tests.integrations.trainer_truth import assert_norms, clipped, norms, numbers
from tests.loop.support import Keep

MOST = 0.05


def make_bert():
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=20,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=8,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertForSequenceClassification(config)


def samples(count=64):
    draw = torch.Generator().manual_seed(1)
    return [
        {"input_ids": torch.randint(0, 20, (6,), generator=draw), "labels": torch.tensor(i % 2)}
        for i in range(count)
    ]


class Noting(Trainer):
    """Notes the batches of each step."""

    def training_step(self, model, inputs, *args, **kwargs):
        self.noted.setdefault(self.state.global_step + 1, []).append(dict(inputs))
        return super().training_step(model, inputs, *args, **kwargs)


class Truth(TrainerCallback):
    """The model before each step, in float64."""

    def __init__(self):
        self.models = {}

    def on_step_begin(self, args, state, control, model, **kwargs):
        self.models[state.global_step + 1] = copy.deepcopy(model).double()


@pytest.fixture
def train(tmp_path):
    def run(*callbacks, model=None, resume=None, **arguments):
        arguments = {
            "per_device_train_batch_size": 2,
            "gradient_accumulation_steps": 4,
            "max_steps": 4,
            "max_grad_norm": MOST,
            "learning_rate": 1e-2,
            "use_cpu": True,
            "logging_steps": 2,
            "report_to": [],
            "save_strategy": "no",
            "disable_tqdm": True,
            "dataloader_pin_memory": False,
        } | arguments
        trainer = Noting(
            make_bert() if model is None else model,
            TrainingArguments(str(tmp_path / "out"), **arguments),
            train_dataset=samples(),
            eval_dataset=samples(8),
            callbacks=list(callbacks),
        )
        trainer.noted = {}
        # So that the trainer divides by the number of micro-batches: this model's loss does not.
        trainer.model_accepts_loss_kwargs = False
        trainer.train(resume_from_checkpoint=resume)
        return trainer

    return run


def gradients_of(model, batches):
    """The gradients of the mean loss over all batches, by autograd."""
    model.zero_grad()
    for batch in batches:
        (model(**batch).loss / len(batches)).backward()
    return {
        n.replace(".", "/"): p.grad.numpy() for n, p in model.named_parameters() if p.requires_grad
    }


def test_gradients_before_and_after_clipping_are_those_of_float64_autograd(tmp_path, train):
    keep, truth = Keep(), Truth()
    both = [gradwatch.gradients(), gradwatch.applied_gradients()]
    callback = GradwatchCallback(tmp_path / "run", every=1, watch=both, sinks=[keep])
    trainer = train(truth, callback)
    before, after = norms(keep, Kind.GRADIENT), norms(keep, Kind.APPLIED_GRADIENT)
    assert list(before) == list(after) == [1, 2, 3, 4]
    for step, model in truth.models.items():
        slopes = gradients_of(model, trainer.noted[step])
        assert len(trainer.noted[step]) == 4
        assert_norms(before[step], slopes)
        assert_norms(after[step], clipped(slopes, MOST))


@pytest.mark.parametrize("bf16", [False, True])
def test_training_is_bit_identical_with_and_without(tmp_path, train, bf16):
    options = {"max_steps": 50, "gradient_accumulation_steps": 1, "bf16": bf16}
    bare = train(**options).model
    callback = GradwatchCallback(tmp_path / "run", every=2)
    watched = train(callback, **options).model
    for a, b in zip(bare.parameters(), watched.parameters(), strict=True):
        assert torch.equal(a, b)
    assert len(numbers(tmp_path / "run", "loss")["loss"]) == 50


def test_loss_learning_rate_norm_and_evaluations_are_recorded(tmp_path, train):
    callback = GradwatchCallback(tmp_path / "run", every=1)
    trainer = train(callback, eval_strategy="steps", eval_steps=2)
    logged = trainer.state.log_history
    losses = numbers(tmp_path / "run", "loss")["loss"]
    assert list(losses) == [1, 2, 3, 4]
    # The trainer logs the mean of two steps.
    mean = [entry["loss"] for entry in logged if "loss" in entry]
    assert np.mean([losses[1], losses[2]]) == pytest.approx(mean[0], rel=1e-3)
    metrics = numbers(tmp_path / "run", "metric")
    norm = {e["step"]: float(e["grad_norm"]) for e in logged if "grad_norm" in e}
    assert metrics["grad_norm"] == pytest.approx(norm)
    evaluated = {e["step"]: e["eval_loss"] for e in logged if "eval_loss" in e}
    assert metrics["eval_loss"] == pytest.approx(evaluated)
    assert not any("runtime" in name or "per_second" in name for name in metrics)
    rates = numbers(tmp_path / "run", "scalar")["learning_rate"]
    assert rates == pytest.approx({i: 1e-2 * (1 - (i - 1) / 4) for i in (1, 2, 3, 4)})


def test_a_nan_that_the_trainer_hides_is_reported_and_stops_it(tmp_path, train, caplog):
    class Planting(TrainerCallback):
        def on_step_begin(self, args, state, control, model, **kwargs):
            if state.global_step == 4:
                with torch.no_grad():
                    model.classifier.weight[0, 0] = math.nan

    callback = GradwatchCallback(tmp_path / "run", stop_on="error")
    with caplog.at_level(logging.WARNING, "transformers"):
        logging.getLogger("transformers").addHandler(caplog.handler)
        trainer = train(Planting(), callback, max_steps=60, logging_steps=1)
        logging.getLogger("transformers").removeHandler(caplog.handler)
    hidden = [e["loss"] for e in trainer.state.log_history if "loss" in e]
    assert all(map(math.isfinite, hidden))
    assert trainer.state.global_step < 60
    worst = callback.monitor.findings[0]
    assert (worst.rule, worst.severity) == ("non-finite", "error")
    assert math.isnan(numbers(tmp_path / "run", "loss")["loss"][5])
    assert any("classifier" in message for message in caplog.messages)


@pytest.mark.skipif(
    numbers_of(torch.__version__) < (2, 6), reason="transformers 5 loads no state with this torch"
)
def test_a_resumed_training_continues_the_run(tmp_path, train):
    run = tmp_path / "run"
    train(GradwatchCallback(run, every=1), save_strategy="steps", save_steps=2, max_steps=2)
    train(
        GradwatchCallback(run, every=1),
        resume=str(tmp_path / "out" / "checkpoint-2"),
        max_steps=4,
    )
    assert list(numbers(run, "loss")["loss"]) == [1, 2, 3, 4]
    assert not (tmp_path / "run-2").exists()


def test_a_model_that_the_optimizer_does_not_train_is_a_notice_and_training_goes_on(
    tmp_path, caplog
):
    callback = GradwatchCallback(tmp_path / "run")
    other = make_bert()
    optimizer = torch.optim.SGD(make_bert().parameters(), lr=0.1)
    shown = []
    callback.monitor._reporter.show = shown.append
    state = type("State", (), {"global_step": 0, "epoch": 0.0})
    callback.on_train_begin(None, state, None, model=other, optimizer=optimizer)
    callback.on_train_begin(None, state, None, model=other)
    args = type("Arguments", (), {"deepspeed": "config.json"})
    callback.on_train_begin(args, state, None, model=other, optimizer=optimizer)
    callback.on_epoch_begin(args, state, None)
    callback.on_step_begin(args, state, None)
    callback.on_train_end(args, state, None)
    assert ["none of the parameters" in shown[0], "newer" in shown[1]] == [True, True]
    assert "DeepSpeed" in shown[2]
    assert len(shown) == 3


def test_with_a_loss_scaler_gradients_and_losses_are_unscaled(tmp_path, train, monkeypatch):
    class Applied(TrainerCallback):
        """The gradients after clipping, unscaled."""

        def __init__(self):
            self.gradients = {}

        def on_pre_optimizer_step(self, args, state, control, model, **kwargs):
            self.gradients[state.global_step + 1] = {
                n.replace(".", "/"): p.grad.double().numpy().copy()
                for n, p in model.named_parameters()
            }

    create = Trainer.create_accelerator_and_postprocess

    def with_scaler(trainer):
        # Accelerate's own code for fp16, which it turns off on a CPU.
        create(trainer)
        trainer.accelerator.native_amp = True
        trainer.accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)

    monkeypatch.setattr(Trainer, "create_accelerator_and_postprocess", with_scaler)
    keep, applied, truth = Keep(), Applied(), Truth()
    both = [gradwatch.gradients(), gradwatch.applied_gradients()]
    callback = GradwatchCallback(tmp_path / "run", every=1, watch=both, sinks=[keep])
    trainer = train(applied, truth, callback, fp16=True)
    assert trainer.accelerator.scaler.get_scale() == 2.0**8
    before, after = norms(keep, Kind.GRADIENT), norms(keep, Kind.APPLIED_GRADIENT)
    losses = {r.step: r.losses()["loss"] for r in keep.readings if r.losses()}
    assert list(before) == list(after) == list(losses) == [1, 2, 3, 4]
    for step, model in truth.models.items():
        assert_norms(after[step], applied.gradients[step])
        # Before clipping they are in half precision only.
        true = gradients_of(model, trainer.noted[step])
        whole = math.sqrt(sum(np.square(g).sum() for g in true.values()))
        found = math.sqrt(sum(norm**2 for norm in before[step].values()))
        assert found == pytest.approx(whole, rel=2e-3)
        mean = np.mean([model(**batch).loss.item() for batch in trainer.noted[step]])
        assert losses[step] == pytest.approx(mean, rel=2e-3)


def test_a_model_that_the_trainer_compiles_is_recorded(tmp_path, train):
    keep, truth = Keep(), Truth()
    callback = GradwatchCallback(
        tmp_path / "run", every=1, watch=gradwatch.gradients(), sinks=[keep]
    )
    compiled = {"torch_compile": True, "torch_compile_backend": "eager", "max_steps": 2}
    trainer = train(truth, callback, **compiled)
    before = norms(keep, Kind.GRADIENT)
    assert list(before) == [1, 2]
    for step, model in truth.models.items():
        assert_norms(before[step], gradients_of(model, trainer.noted[step]))
