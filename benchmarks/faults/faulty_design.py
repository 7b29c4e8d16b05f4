"""Faulty programs whose fault is in the design: rates, losses, outputs, labels, precision, data."""

from __future__ import annotations

from typing import Any

from .healthy import (
    BITS,
    BLOBS,
    COUNTS,
    DIGITS,
    IMAGES,
    LINEAR,
    MEMORY,
    MIXTURE,
    MOONS,
    PIXELS,
    READER,
    SMOOTH,
    WAVES,
    WORDS,
)  # fmt: skip
from .program import Fault, Program, faulty

_BINARY, _SPARSE = "binary_crossentropy", "sparse_categorical_crossentropy"
_LOGITS = {"from_logits": True}


def _constant_output() -> list[Program]:
    fault = Fault("constant output", layer=("net/output",))
    unit = {"last": "softmax", "units": 1}
    return [
        faulty(MOONS, "one-unit-softmax", fault, options=unit),
        faulty(MOONS, "one-unit-softmax-mse", fault, options=unit, loss="mean_squared_error"),
        faulty(SMOOTH, "one-unit-softmax-smooth", fault, options=unit),
        faulty(MEMORY, "one-unit-softmax-rnn", fault, options=unit, steps=60),
        faulty(DIGITS, "one-unit-softmax-digits", fault, options=unit, data_options={
            "binary": True}, loss=_BINARY),
        faulty(BITS, "one-unit-softmax-cnn", fault, network="cnn", options=unit,
               data="digits", data_options={"image": True, "binary": True}),
    ]  # fmt: skip


def _zero_gradients() -> list[Program]:
    def one(base: Program, name: str, layer: str | None, **changes: Any) -> Program:
        symptoms = ("zero-gradients", "dead-units", "constant-output")
        where = (f"net/{layer}",) if layer else None
        return faulty(base, name, Fault("zero gradients", symptoms, layer=where), **changes)

    def cut(place: int, name: str, frozen: tuple[str, ...] = ()) -> dict[str, Any]:
        return {"after": {place: (name,)}, "widths": (32, 8), "frozen": frozen}

    zeros = {"kernel_initializer": "zeros"}
    head = {"head": zeros}
    return [
        one(DIGITS, "zero-start", None, options={**zeros, **head}),
        one(SMOOTH, "zero-start-smooth", None, options={**zeros, **head}),
        one(IMAGES, "zero-start-cnn", None, options={**zeros, **head}),
        one(MOONS, "zero-start-moons", None, options={**zeros, **head}),
        one(DIGITS, "gradient-stopped", "dense_2", options=cut(2, "stop_gradient"),
            optimizer="sgd", rate=1e-3),
        one(SMOOTH, "gradient-stopped-smooth", "dense_2", options=cut(2, "stop_gradient")),
        one(SMOOTH, "rounded-hidden", "dense_2", options=cut(2, "round")),
        one(MOONS, "sign-hidden", "dense_2", options={**cut(2, "sign"), "widths": (8, 2)}),
        one(DIGITS, "hard-step-hidden", "dense_2", options={
            **cut(2, "hard_step"), "widths": (32, 6)}),
        one(IMAGES, "gradient-stopped-cnn", "conv_2", options={
            "filters": (8, 2), "after": {2: ("stop_gradient",)}}, rate=1e-3),
        one(SMOOTH, "loss-times-zero", "output", loss="mse_times_0"),
        one(SMOOTH, "rounded-in-loss", "output", loss="rounded_mse"),
        one(WORDS, "head-times-zero", None, options={"after": {1: ("times_0",)}}),
    ]  # fmt: skip


def _stalled() -> list[Program]:
    fault = Fault("stalled")
    not_trained = Fault("nothing learned", symptoms=("loss-not-falling", "zero-gradients"))
    return [
        faulty(DIGITS, "stalled-sgd", fault, optimizer="sgd", rate=1e-9),
        faulty(IMAGES, "stalled-cnn", fault, optimizer="sgd", rate=1e-10),
        faulty(SMOOTH, "stalled-adam", fault, rate=1e-11),
        faulty(DIGITS, "stalled-schedule", fault, rate=("decay", 1e-2, 1, 0.2)),
        faulty(WORDS, "stalled-decay", fault, rate=("decay", 1e-2, 1, 0.3)),
        faulty(SMOOTH, "stalled-clip", fault, optimizer="sgd", rate=1e-3, optimizer_options={
            "clipnorm": 1e-6}),
        faulty(BLOBS, "stalled-bfloat16", fault, policy="bfloat16", optimizer="sgd", rate=1e-5),
        faulty(DIGITS, "all-frozen-but-bias", not_trained, options={
            "frozen": ("dense_1", "dense_2"), "after": {2: ("times_0",)}}),
    ]  # fmt: skip


def _rates() -> list[Program]:
    low, high = Fault("rate too low"), Fault("rate too high")
    return [
        faulty(DIGITS, "rate-low-adam", low, rate=1e-7),
        faulty(IMAGES, "rate-low-cnn", low, rate=3e-7),
        faulty(SMOOTH, "rate-low-sgd", low, optimizer="sgd", rate=1e-6),
        faulty(WORDS, "rate-low-words", low, optimizer="sgd", rate=1e-4),
        faulty(WAVES, "rate-low-lstm", low, rate=1e-7),
        faulty(BLOBS, "rate-low-blobs", low, optimizer="sgd", rate=1e-5),
        faulty(MOONS, "rate-low-moons", low, rate=1e-7),
        faulty(DIGITS, "rate-high-adam", high, rate=0.5),
        faulty(IMAGES, "rate-high-cnn", high, rate=0.3),
        faulty(WAVES, "rate-high-lstm", high, rate=2.0),
        faulty(MOONS, "rate-high-moons", high, rate=3.0),
        faulty(SMOOTH, "rate-high-adam-smooth", high, rate=2.0),
        faulty(WORDS, "rate-high-words", high, rate=5.0),
        faulty(DIGITS, "rate-high-rmsprop", high, optimizer="rmsprop", rate=0.3),
        faulty(PIXELS, "diverge-autoencoder", high, optimizer="sgd", rate=40.0),
        faulty(MOONS, "oscillate-moons", high, optimizer="sgd", rate=30.0),
        faulty(BITS, "rate-high-tanh", high, rate=1.0, options={"activation": "tanh"}),
        faulty(DIGITS, "rate-high-momentum", high, optimizer="sgd", rate=2.0, optimizer_options={
            "momentum": 0.95}),
    ]  # fmt: skip


def _diverging() -> list[Program]:
    up, around = Fault("diverging"), Fault("oscillating")
    hard = {"momentum": 0.9}
    return [
        faulty(LINEAR, "diverge-linear", up, rate=1.3),
        faulty(LINEAR, "diverge-linear-slowly", up, rate=0.9),
        faulty(LINEAR, "diverge-offset-inputs", up, data_options={
            "scale_inputs": (1.0, 3.0)}, rate=0.02),
        faulty(SMOOTH, "diverge-rising-rate", up, optimizer="sgd", rate=("decay", 1e-2, 10, 2.5)),
        faulty(LINEAR, "diverge-momentum", up, rate=0.5, optimizer_options={"momentum": 0.97}),
        faulty(LINEAR, "oscillate-linear", around, rate=0.72),
        faulty(SMOOTH, "oscillate-smooth", around, optimizer="rmsprop", rate=0.2),
        faulty(SMOOTH, "oscillate-momentum", around, optimizer="sgd", rate=0.3,
               optimizer_options=hard),
        faulty(DIGITS, "sorted-by-class", Fault("oscillating", symptoms=(
            "unshuffled-data", "loss-oscillating", "loss-not-falling", "learning-rate-too-high",
            "loss-diverging")), data_options={"sort_by_label": True}, fit={"shuffle": False},
               rate=1e-2),
    ]  # fmt: skip


def _wrong_sign() -> list[Program]:
    fault = Fault("wrong sign")
    return [
        faulty(SMOOTH, "negative-mse", fault, loss="negative_mse"),
        faulty(LINEAR, "negative-mse-linear", fault, loss="negative_mse"),
        faulty(MOONS, "likelihood", fault, loss="likelihood"),
        faulty(DIGITS, "negative-crossentropy", fault, loss="negative_crossentropy"),
        faulty(SMOOTH, "mean-error", fault, loss="mean_error"),
        faulty(PIXELS, "negative-autoencoder", fault, loss="negative_mse"),
    ]


def _outputs_and_losses() -> list[Program]:
    logits = Fault("logits or not", confirm="loss")
    wrong = Fault("output and loss")
    none = {"last": None}
    # On torch, crossentropy of probabilities refuses such labels; of logits it takes them.
    labels, plain = Fault("labels", confirm="loss"), {"loss_options": _LOGITS}
    one = {"options": {"last": None, "units": 1}}
    return [
        faulty(DIGITS, "logits-twice-softmax", logits, loss_options=_LOGITS),
        faulty(IMAGES, "logits-twice-softmax-cnn", logits, loss_options=_LOGITS),
        faulty(WORDS, "logits-twice-softmax-words", logits, loss_options=_LOGITS),
        faulty(BLOBS, "logits-twice-softmax-blobs", logits, loss_options=_LOGITS),
        faulty(MOONS, "logits-twice-sigmoid", logits, loss_options=_LOGITS),
        faulty(BITS, "logits-twice-sigmoid-bits", logits, loss_options=_LOGITS),
        faulty(DIGITS, "default-last-layer", logits, options=none),
        faulty(IMAGES, "default-last-layer-cnn", logits, options=none),
        faulty(WAVES, "default-last-layer-lstm", logits, options=none),
        faulty(MOONS, "default-last-layer-moons", logits, options=none),
        faulty(BITS, "default-last-layer-bits", logits, options=none),
        faulty(DIGITS, "tanh-and-crossentropy", Fault("output and loss", confirm="loss"),
               options={"last": "tanh"}),
        faulty(DIGITS, "relu-and-crossentropy", Fault("output and loss", symptoms=(
            "structural-mismatch", "dead-units", "constant-output"), confirm="loss"),
               options={"last": "relu"}),
        faulty(MOONS, "tanh-and-binary", Fault("output and loss", confirm="loss"), options={
            "last": "tanh"}),
        faulty(DIGITS, "sigmoid-and-crossentropy", Fault("output and loss", confirm="loss"),
               options={"last": "sigmoid"}),
        faulty(DIGITS, "one-unit-for-ten-classes", labels, loss=_BINARY, **one, **plain),
        faulty(BLOBS, "one-unit-for-four-classes", labels, loss=_BINARY, **one, **plain),
        faulty(DIGITS, "one-unit-mse-for-classes", wrong, loss="mean_squared_error", options={
            "last": "sigmoid", "units": 1}),
        faulty(MOONS, "labels-minus-one", labels, data_options={"labels": (-1.0, 1.0)},
               options=none, **plain),
        faulty(MOONS, "labels-one-two", labels, data_options={"labels": (1.0, 2.0)},
               options=none, **plain),
        faulty(BITS, "labels-0-to-255", labels, data_options={"change_labels": (255.0, 0.0)},
               options=none, **plain),
        faulty(SMOOTH, "values-and-binary", Fault("labels", symptoms=(
            "structural-mismatch", "negative-loss", "loss-diverging")), loss=_BINARY,
               options=none, **plain),
    ]  # fmt: skip


def _bounded() -> list[Program]:
    bounded, rectified = Fault("bounded output"), Fault("rectified output")
    wide = {"scale": 20.0}
    relu = {"last": "relu"}
    return [
        faulty(SMOOTH, "sigmoid-for-values", bounded, options={"last": "sigmoid"}),
        faulty(SMOOTH, "tanh-for-wide-values", bounded, options={"last": "tanh"},
               data_options=wide),
        faulty(LINEAR, "sigmoid-for-linear", bounded, options={"last": "sigmoid"}),
        faulty(SMOOTH, "softmax-for-values", Fault("constant output"), options={"last": "softmax"}),
        faulty(SMOOTH, "sigmoid-for-thousands", bounded, options={"last": "sigmoid"}, data_options={
            "scale": 100.0, "offset": 1000.0}),
        faulty(COUNTS, "tanh-for-counts", bounded, options={"last": "tanh"}),
        faulty(SMOOTH, "relu-for-negative", rectified, options=relu, data_options={"offset": -3.0}),
        faulty(LINEAR, "relu-for-linear", rectified, options=relu),
        faulty(SMOOTH, "relu-for-values", rectified, options=relu),
        faulty(PIXELS, "relu-for-negative-pixels", rectified, options=relu, data_options={
            "change_labels": (-1.0, 0.0)}),
    ]  # fmt: skip


def _inputs() -> list[Program]:
    fault = Fault("unscaled inputs", symptoms=(
        "input-scale", "structural-mismatch", "saturated-activations", "learning-rate-too-high",
        "loss-oscillating", "loss-diverging", "exploding-gradients", "dead-units", "non-finite",
        "imbalance"))  # fmt: skip
    return [
        faulty(DIGITS, "inputs-1e4", fault, data_options={"scale_inputs": (1e4, 1e4)},
               optimizer="sgd", rate=0.01),
        faulty(IMAGES, "inputs-1e4-cnn", fault, data_options={"scale_inputs": 1e4}),
        faulty(SMOOTH, "inputs-1e5", fault, data_options={"scale_inputs": 1e5}),
        faulty(SMOOTH, "inputs-1e3-sgd", fault, data_options={"scale_inputs": 1e3},
               optimizer="sgd", rate=1e-2),
        faulty(MOONS, "inputs-1e6-offset", fault, data_options={"scale_inputs": (1e4, 1e6)}),
        faulty(SMOOTH, "one-feature-1e5", fault, data_options={"scale_one_feature": 1e5}),
        faulty(WAVES, "inputs-1e4-lstm", fault, data_options={"scale_inputs": 1e4}),
        faulty(LINEAR, "inputs-100-linear", fault, data_options={"scale_inputs": 100.0}),
    ]  # fmt: skip


def _precision() -> list[Program]:
    fault = Fault("underflow")
    plain = {"fit": {"scale_loss": False}, "policy": "mixed_float16"}
    return [
        faulty(SMOOTH, "underflow-small-loss", fault, loss="mse_times_1e-6", optimizer="sgd",
               rate=1e4, **plain),
        faulty(DIGITS, "underflow-crossentropy", fault, loss="crossentropy_times_1e-6", **plain),
        faulty(LINEAR, "underflow-linear", fault, loss="mse_times_1e-7", rate=1e5, **plain),
        faulty(DIGITS, "underflow-deep", fault, options={
            "widths": (24,) * 6, "kernel_initializer": ("normal", 0.03)}, **plain),
        faulty(PIXELS, "underflow-autoencoder", fault, loss="mse_times_1e-6", **plain),
    ]  # fmt: skip


def _overfitting() -> list[Program]:
    fault = Fault("overfitting", confirm="overfit")
    few = {"size": 48, "batch": 16, "steps": 240}
    wide = {"widths": (128, 128)}
    return [
        faulty(DIGITS, "overfit-noisy-labels", fault, options=wide, data_options={
            "shuffle_labels": 0.4}, **few),
        faulty(DIGITS, "overfit-few-digits", fault, options=wide, **few, rate=1e-2),
        faulty(SMOOTH, "overfit-smooth", fault, options=wide, data_options={"noise": 1.0}, **few),
        faulty(MOONS, "overfit-moons", fault, options=wide, data_options={"noise": 0.6}, **few),
        faulty(WORDS, "overfit-words", fault, size=48, batch=16, steps=240, options={"width": 32}),
        faulty(LINEAR, "overfit-linear", fault, options=wide, data_options={"noise": 1.0},
               optimizer="adam", rate=3e-3, **few),
        faulty(WAVES, "overfit-waves", fault, size=32, batch=16, steps=150, data_options={
            "shuffle_labels": 0.4}, options={"widths": (32,)}),
    ]  # fmt: skip


def _collapsed() -> list[Program]:
    attention = Fault("attention collapse")
    router = Fault("router collapse")
    alone = {"preference": 20.0, "balance": 0.0}
    return [
        faulty(READER, "attention-sharp", attention, options={"sharp": 30.0}),
        faulty(READER, "attention-sharp-one-head", attention, options={"sharp": 60.0, "heads": 1}),
        faulty(READER, "attention-sharp-wide", attention, options={
            "sharp": 60.0, "width": 32, "heads": 4}),
        faulty(READER, "attention-sharper", attention, options={"sharp": 300.0}),
        faulty(MIXTURE, "router-alone", router, options=alone),
        faulty(MIXTURE, "router-alone-of-four", router, options={**alone, "experts": 4}),
        faulty(MIXTURE, "router-alone-of-twelve", router, options={**alone, "experts": 12},
               batch=128, size=1280),
        faulty(MIXTURE, "router-alone-large-batch", router, options=alone, batch=128, size=1280),
    ]  # fmt: skip


def _nothing_learned() -> list[Program]:
    fault = Fault("nothing learned", symptoms=("loss-not-falling", "imbalance"), visible=False)
    lost = {"shuffle_labels": 1.0}
    return [
        faulty(DIGITS, "random-labels", fault, data_options=lost, options={"widths": (8,)}),
        faulty(MOONS, "random-labels-moons", fault, data_options=lost),
        faulty(SMOOTH, "random-targets", fault, data_options=lost, options={"widths": (8,)},
               rate=3e-3),
        faulty(WAVES, "random-labels-lstm", fault, data_options=lost, rate=3e-3, options={
            "widths": (6,)}),
        faulty(WORDS, "random-labels-words", fault, data_options=lost, rate=3e-3),
    ]  # fmt: skip


def programs() -> list[Program]:
    """All of these."""
    families = (
        _constant_output, _zero_gradients, _stalled, _rates, _diverging, _wrong_sign,
        _outputs_and_losses, _bounded, _inputs, _precision, _overfitting, _collapsed,
        _nothing_learned,
    )  # fmt: skip
    return [program for family in families for program in family()]
