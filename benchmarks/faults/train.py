"""Trains a program, records it, and writes how it came out."""

from __future__ import annotations

import json
import time
import warnings
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np

import gradwatch
from gradwatch.core import Kind, Reading, Site, Summary
from gradwatch.sinks.base import Sink

from . import outcome, trace
from .build import build, compile_
from .datasets import Data, make
from .labels import describe
from .model_facts import facts, learning_rate, loss_scale
from .program import Program

_ATTENDS = ("reader", "transformer")
"""Networks with attention."""


def train(program: Program, seed: int, folder: Path | None, twin: dict[str, Any] | None) -> dict:
    """Run a program once.

    Args:
        program: which one.
        seed: of its data, weights and batches.
        folder: where the run is recorded; None to only see how it comes out.
        twin: how its healthy twin came out; None for a healthy program.

    Returns:
        The label: what the program is, and how it came out.
    """
    data, model, given = _prepared(program, seed)
    told = _Told(model, given)
    kept = _Kept()
    watches: list[Any] = []
    if folder is not None:
        sinks = [kept, gradwatch.Store()] if hasattr(gradwatch, "Store") else [kept]
        watches = [gradwatch.Monitor(folder, every=1, sinks=sinks, diagnose=False, watch=[
            gradwatch.gradients(), gradwatch.weights(), gradwatch.updates(),
            gradwatch.outputs(per_unit=True), gradwatch.output_gradients(),
            *([gradwatch.attention()] if program.network in _ATTENDS else [])])]  # fmt: skip
    first_facts = facts(program, model, data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _fit(program, data, model, given, [told, *watches, *map(_Unhurried, watches)])
        result = _score(program, model, data)
    if folder is not None:
        readings = [given.added_to(reading) for reading in kept.readings]
        trace.save(folder, readings, told.told, first_facts)
        non_finite = _first_non_finite(kept.readings, told.losses)
    else:
        non_finite = next((i for i, x in enumerate(told.losses, 1) if not np.isfinite(x)), None)
    label = _label(program, seed, result, told, non_finite, twin)
    if folder is not None:
        (folder / "label.json").write_text(json.dumps(label, indent=1))
    return label


def train_live(program: Program, seed: int, monitor: gradwatch.Monitor) -> None:
    """Run a program once with a monitor, as a user would; whatever it raises ends it."""
    data, model, given = _prepared(program, seed)
    with warnings.catch_warnings(), suppress(Exception):
        warnings.simplefilter("ignore")
        _fit(program, data, model, given, [monitor])
    monitor.close()


def _prepared(program: Program, seed: int) -> tuple[Data, Any, _Batches]:
    """The data, the compiled model and the batches of a program."""
    rng = np.random.default_rng([seed, zlib.crc32(program.data.encode())])
    data = make(program.data, rng, program.size, dict(program.data_options))
    keras.utils.set_random_seed(1000 + seed)
    model = build(program, data)
    given = _Batches(program, data, np.random.default_rng([seed, 1]))
    _train_before(program, model, data)
    return data, model, given


def _fit(program: Program, data: Data, model: Any, given: _Batches, callbacks: list[Any]) -> None:
    model.fit(
        given.forever(), steps_per_epoch=given.per_epoch, verbose=0, callbacks=callbacks,
        epochs=-(-program.steps // given.per_epoch),
        validation_data=(data.val_x, data.val_y), validation_batch_size=len(data.val_x),
    )  # fmt: skip


class _Batches:
    """Batches without end, shuffled anew each epoch; and summaries of those that were given."""

    def __init__(self, program: Program, data: Data, rng: np.random.Generator) -> None:
        self.data, self.batch, self.rng = data, program.batch, rng
        self.per_epoch = len(data.x) // program.batch
        # What is not finite must come at the step that the label says.
        spoilt = {"spoil_input", "spoil_target"} & set(program.data_options)
        self.shuffles = program.fit.get("shuffle", not spoilt)
        self.summaries: list[Any] = []

    def forever(self) -> Iterator[Any]:
        order = np.arange(len(self.data.x))
        while True:
            if self.shuffles:
                order = self.rng.permutation(len(self.data.x))
            for i in range(self.per_epoch):
                chosen = order[i * self.batch : (i + 1) * self.batch]
                x, y = self.data.x[chosen], self.data.y[chosen]
                self.summaries.append((Summary.of(x).pack(), Summary.of(y).pack()))
                yield x, y

    def added_to(self, reading: Reading) -> Reading:
        """The reading with what the step was given as the first of its sites."""
        if reading.group or any(site.kind is Kind.INPUT for site in reading.sites):
            return reading
        sites = [Site(Kind.INPUT, "input"), Site(Kind.TARGET, "target"), *reading.sites]
        rows = [*self.summaries[reading.step - 1], *reading.summary.pack()]
        summary = Summary.unpack(np.stack(rows))
        return replace(reading, sites=sites, summary=summary, members={}, pictures={}, cells={})


class _Kept(Sink):
    """Keeps readings in memory."""

    threaded = False

    def __init__(self) -> None:
        self.readings: list[Reading] = []

    def write(self, reading: Reading) -> None:
        self.readings.append(reading)


class _Unhurried(keras.callbacks.Callback):
    """Waits now and then until all readings are kept: of these, a trace may lack none."""

    def __init__(self, monitor: Any) -> None:
        super().__init__()
        self.monitor = monitor

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        while batch % 16 == 0 and not self.monitor._session.is_idle:
            time.sleep(0.0005)


class _Told(keras.callbacks.Callback):
    """The loss and learning rate of each step, and what epochs end with."""

    def __init__(self, model: Any, given: _Batches) -> None:
        super().__init__()
        self.optimizer = getattr(model, "generator_optimizer", None) or model.optimizer
        self.given = given
        self.told = trace.Told()

    @property
    def losses(self) -> list[float]:
        return self.told.losses

    @property
    def epochs(self) -> list[dict[str, float]]:
        return self.told.epochs

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        # Else the logs are means over the epoch so far.
        self.model.reset_metrics()
        self.told.rates.append(learning_rate(self.optimizer))
        scale = loss_scale(self.optimizer)
        self.told.scales.append(np.nan if scale is None else scale)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.losses.append(float(logs["loss"]))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        done = float(np.mean(self.losses[-self.given.per_epoch :]))
        validation = float(logs.get("val_loss", np.nan))
        self.epochs.append({"step": len(self.losses), "loss": done, "val_loss": validation})


def _train_before(program: Program, model: Any, data: Data) -> None:
    """What a program that fine-tunes has been trained on before."""
    steps = program.fit.get("before", 0)
    if steps:
        compile_(model, program, rate=5e-3)
        for _ in range(-(-steps * program.batch // len(data.x))):
            model.fit(data.x, data.y, batch_size=program.batch, verbose=0)
        model.get_layer("output").kernel.assign(0.3 * model.get_layer("output").kernel.value)
        for name in program.fit["freeze"]:
            model.get_layer(name).trainable = False
        compile_(model, program)


def _score(program: Program, model: Any, data: Data) -> float:
    if program.network == "gan":
        return model.quality()
    answer = model.predict(data.judged_x, batch_size=len(data.judged_x), verbose=0)
    return outcome.score(data.task, data.truth, answer)


def _first_non_finite(readings: list[Reading], losses: list[float]) -> int | None:
    """By the loss and by every measured tensor but those of steps that a loss scale skips."""
    found = [i for i, x in enumerate(losses, 1) if not np.isfinite(x)][:1]
    for reading in readings:
        s = reading.summary
        if np.any(s.nan + s.posinf + s.neginf > 0):
            found.append(reading.step)
            break
    return min(found, default=None)


def _label(
    program: Program, seed: int, score: float, told: _Told, non_finite: int | None, twin: Any
) -> dict[str, Any]:
    confirmed, why = outcome.verdict(program, score, told.losses, told.epochs, non_finite, twin)
    return describe(program) | {
        "seed": seed,
        "confirmed": bool(confirmed),
        "why": why,
        "score": score,
        "loss": float(np.mean(told.losses[-10:])),
        "steps": len(told.losses),
        "non_finite": non_finite,
    }
