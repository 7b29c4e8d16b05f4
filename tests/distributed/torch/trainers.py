"""A rank of trainings by trainers: `python trainers.py FOLDER RANK RANKS`."""

import os
import sys
from pathlib import Path

import lightning.pytorch as pl
import torch
import torch.distributed as dist
from transformers import Trainer, TrainerCallback, TrainingArguments

import gradwatch
from gradwatch.integrations import lightning as for_lightning
from gradwatch.integrations import transformers as for_transformers
from tests.integrations.test_lightning import Net
from tests.integrations.test_lightning import data as batches
from tests.integrations.test_transformers import Noting, Truth, make_bert, samples

STEPS = 4
MOST = 0.05
WATCHED = {
    "every": 1,
    "watch": [gradwatch.gradients(), gradwatch.applied_gradients(), gradwatch.weights()],
}


class TruthOfReplicas(Truth):
    """The model before each step, in float64, without what wraps it."""

    def on_step_begin(self, args, state, control, model, **kwargs):
        super().on_step_begin(args, state, control, model=getattr(model, "module", model), **kwargs)


def by_transformers(folder: Path, *callbacks: TrainerCallback) -> dict[str, object]:
    arguments = TrainingArguments(
        str(folder / "out"),
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        max_steps=STEPS,
        max_grad_norm=MOST,
        learning_rate=1e-2,
        use_cpu=True,
        ddp_backend="gloo",
        logging_steps=2,
        eval_strategy="steps",
        eval_steps=2,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    truth = TruthOfReplicas()
    trainer: Trainer = Noting(
        make_bert(),
        arguments,
        train_dataset=samples(),
        eval_dataset=samples(8),
        callbacks=[truth, *callbacks],
    )
    trainer.noted, trainer.model_accepts_loss_kwargs = {}, False
    trainer.train()
    return result(trainer.model, truth.models, trainer.noted, trainer.state.global_step)


def by_lightning(folder: Path, *callbacks: pl.Callback) -> dict[str, object]:
    net = Net()
    trainer = pl.Trainer(
        max_steps=STEPS,
        accumulate_grad_batches=2,
        gradient_clip_val=MOST,
        accelerator="cpu",
        strategy="ddp",
        devices=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        limit_val_batches=0,
        callbacks=list(callbacks),
    )
    trainer.fit(net, batches(), batches(8))
    return result(net, net.models, net.batches, trainer.global_step)


def result(model, models, noted, steps) -> dict[str, object]:
    states = {step: each.state_dict() for step, each in models.items()}
    return {"model": model.state_dict(), "states": states, "batches": noted, "steps": steps}


def main(folder: Path, rank: int, ranks: int) -> None:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}
    os.environ |= {"LOCAL_WORLD_SIZE": str(ranks), "NODE_RANK": "0"}
    dist.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=ranks)
    torch.set_num_threads(1)
    trainings = {
        "transformers": (by_transformers, for_transformers.GradwatchCallback),
        "lightning": (by_lightning, for_lightning.GradwatchCallback),
    }
    for name, (train, callback) in trainings.items():
        bare = train(folder)
        watched = train(folder, callback(folder / name, stop_on="info", **WATCHED))
        torch.save({"bare": bare, "watched": watched}, folder / f"{name}-{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
