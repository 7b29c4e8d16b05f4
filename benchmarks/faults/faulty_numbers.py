"""Faulty programs in which numbers go wrong inside the network."""

from __future__ import annotations

from typing import Any

from .healthy import (
    BITS,
    BLOBS,
    DEEP,
    DIGITS,
    IMAGES,
    LINEAR,
    MEMORY,
    MOONS,
    PIXELS,
    SMOOTH,
    WAVES,
    WORDS,
)  # fmt: skip
from .program import Fault, Program, faulty

_BROKEN = 40
"""Steps that are enough to see that all is NaN."""


def _at(*names: str) -> tuple[str, ...]:
    return tuple(f"net/{name}" for name in names)


def _after(place: int, *names: str) -> dict[str, Any]:
    return {"after": {place: names}}


def _constant(value: float) -> dict[str, Any]:
    return {"bias_initializer": ("constant", value)}


def _normal(deviation: float) -> dict[str, Any]:
    return {"kernel_initializer": ("normal", deviation)}


def _forward(base: Program, name: str, layer: str, step: int = 1, **changes: Any) -> Program:
    where = _at(layer) if layer else None
    if "spoil_input" in changes.get("data_options", {}):
        where = (*_at(layer), "input")
    fault = Fault("non-finite forward", layer=where, step=step, confirm="non-finite")
    return faulty(base, name, fault, steps=_BROKEN, **changes)


def _non_finite_forward() -> list[Program]:
    nan, inf = float("nan"), float("inf")
    return [
        _forward(DIGITS, "log-of-relu-mlp", "odd_1", options=_after(1, "log")),
        _forward(DIGITS, "log-of-relu-second", "odd_2", options=_after(2, "log")),
        _forward(IMAGES, "log-of-relu-cnn", "odd_1", options=_after(1, "log")),
        _forward(SMOOTH, "log-of-tanh", "odd_2", options={
            **_after(2, "log"), "activation": "tanh"}),
        _forward(DIGITS, "exp-overflow-mlp", "odd_1", options=_after(1, "exp"), rate=1e-4,
                 data_options={"scale": 3.0}),
        _forward(SMOOTH, "exp-overflow-smooth", "odd_1", options={
            **_after(1, "exp"), "at": {1: _normal(2.0)}}),
        _forward(DIGITS, "divide-by-relu", "odd_1", options=_after(1, "reciprocal")),
        _forward(IMAGES, "divide-by-relu-cnn", "odd_2", options=_after(2, "reciprocal")),
        _forward(DIGITS, "standardise-constant-features", "odd_1", options={
            **_after(1, "standardise"), "at": {1: _constant(-3.0)}}),
        _forward(DIGITS, "root-of-negative", "odd_1", options=_after(1, "sqrt_of_negative")),
        _forward(WORDS, "log-of-embedding", "odd_0", options=_after(0, "log")),
        _forward(DIGITS, "nan-in-data", "dense_1", step=5, data_options={
            "spoil_input": (130, nan)}),
        _forward(SMOOTH, "nan-in-data-smooth", "dense_1", step=11, data_options={
            "spoil_input": (330, nan)}),
        _forward(IMAGES, "nan-in-images", "conv_1", step=3, data_options={
            "spoil_input": (70, nan)}),
        _forward(WAVES, "nan-in-sequences", "rnn_1", step=8, data_options={
            "spoil_input": (230, nan)}),
        _forward(DIGITS, "inf-in-data", "dense_1", step=7, data_options={
            "spoil_input": (200, inf)}),
        _forward(SMOOTH, "nan-in-targets", "", step=6, data_options={"spoil_target": (170, nan)}),
        _forward(LINEAR, "inf-in-targets", "", step=9, data_options={"spoil_target": (260, inf)}),
        _forward(DIGITS, "own-crossentropy-of-zero", "", loss="own_crossentropy", rate=1e-4,
                 options={"head": _normal(200.0)}),
        _forward(SMOOTH, "divide-by-zero-target", "", step=4, loss="relative_error", data_options={
            "spoil_target": (100, 0.0)}),
    ]  # fmt: skip


def _non_finite_backward() -> list[Program]:
    def one(base: Program, name: str, layers: tuple[str, ...], **changes: Any) -> Program:
        fault = Fault("non-finite backward", layer=_at(*layers), step=1, confirm="non-finite")
        return faulty(base, name, fault, steps=_BROKEN, **changes)

    # The gradient breaks in the function: the first bad tensor is what is below it.
    silent = {"kernel_initializer": "zeros"}
    return [
        one(DIGITS, "masked-root", ("odd_1", "dense_1"), options=_after(1, "masked_sqrt")),
        one(DIGITS, "masked-root-second", ("odd_2", "dense_2"), options=_after(2, "masked_sqrt")),
        one(IMAGES, "masked-root-cnn", ("odd_1", "conv_1"), options=_after(1, "masked_sqrt")),
        one(SMOOTH, "masked-log", ("odd_2", "dense_2"), options=_after(2, "masked_log")),
        one(BITS, "masked-log-tanh", ("odd_1", "dense_1"), options={
            **_after(1, "masked_log"), "activation": "tanh"}),
        one(MOONS, "masked-power", ("odd_2", "dense_2"), options=_after(2, "masked_power")),
        one(DIGITS, "distance-to-itself", ("odd_1", "dense_1"), options=_after(
            1, "distance_to_first")),
        one(WAVES, "distance-to-itself-lstm", ("odd_1", "rnn_1"), options=_after(
            1, "distance_to_first")),
        one(WORDS, "own-norm-of-zero-words", ("odd_0", "embedding"), options={
            **_after(0, "own_norm"), "embedding": {"embeddings_initializer": "zeros"}}),
        one(LINEAR, "own-rmse-at-zero", ("output",), loss="own_rmse", options={"head": silent},
            data_options={"spoil_target": (3, 0.0)}),
    ]  # fmt: skip


def _exploding() -> list[Program]:
    fault = Fault("exploding")
    deep, logits = {"widths": (32,) * 8}, {"last": None}
    # Of logits, since the crossentropy of probabilities that have become 0 or 1 has no gradient.
    plain = {"loss_options": {"from_logits": True}}
    return [
        faulty(DIGITS, "explode-deep-relu", fault, options={
            **deep, **_normal(0.8), **logits}, **plain),
        faulty(DIGITS, "explode-deep-linear", fault, options={
            **deep, **_normal(0.5), "activation": "linear", **logits}, optimizer="sgd", rate=1e-2,
            **plain),
        faulty(SMOOTH, "explode-deep-smooth", fault, options={**deep, **_normal(0.5)}),
        faulty(IMAGES, "explode-cnn", fault, options={
            "filters": (8,) * 6, "pool": (), **_normal(1.0), **logits}, optimizer="sgd", rate=1e-2,
            **plain),
        faulty(MEMORY, "explode-recurrent", fault, data_options={"length": 24}, options={
            "activation": "relu", "recurrent_initializer": ("orthogonal", 2.5), **logits}, steps=60,
            **plain),
        faulty(WAVES, "explode-recurrent-waves", fault, options={
            "cell": "simple", "activation": "linear",
            "recurrent_initializer": ("orthogonal", 2.5), **logits}, **plain),
        faulty(SMOOTH, "explode-targets", fault, data_options={"scale": 1e4}, optimizer="sgd",
               rate=1e-2),
        faulty(DIGITS, "explode-residual", fault, network="residual", options={
            "blocks": 8, "scale": 4.0, **logits}, **plain),
        faulty(PIXELS, "explode-autoencoder", fault, options={
            "widths": (32, 32, 12, 32, 32), **_normal(0.9)}),
    ]  # fmt: skip


def _vanishing() -> list[Program]:
    fault = Fault("vanishing")

    def weak(base: Program, name: str, layers: tuple[str, ...], **changes: Any) -> Program:
        return faulty(base, name, Fault("vanishing", layer=_at(*layers)), **changes)

    sigmoid = {"activation": "sigmoid"}
    return [
        faulty(DIGITS, "vanish-sigmoid-10", fault, options={"widths": (24,) * 10, **sigmoid}),
        faulty(DIGITS, "vanish-sigmoid-sgd", fault, options={"widths": (24,) * 8, **sigmoid},
               optimizer="sgd", rate=0.1),
        faulty(MOONS, "vanish-sigmoid-20", fault, options={"widths": (8,) * 20, **sigmoid}),
        faulty(SMOOTH, "vanish-sigmoid-smooth", fault, options={"widths": (16,) * 10, **sigmoid}),
        faulty(BLOBS, "vanish-hard-sigmoid", fault, options={
            "widths": (16,) * 8, "activation": "hard_sigmoid"}),
        faulty(DEEP, "vanish-tanh-small", fault, options={"widths": (24,) * 8, **_normal(0.02)}),
        faulty(DIGITS, "vanish-relu-small", fault, options={"widths": (24,) * 7, **_normal(0.01)}),
        faulty(IMAGES, "vanish-cnn-sigmoid", fault, options={
            "filters": (8,) * 6, "pool": (2, 4), **sigmoid}),
        faulty(BITS, "vanish-bits", fault, options={"widths": (24,) * 10, **sigmoid}),
        faulty(MEMORY, "vanish-recurrent", fault, data_options={"length": 30}, options={
            "recurrent_initializer": ("orthogonal", 0.1)}, steps=60),
        weak(DIGITS, "vanish-behind-2", ("dense_2",), options={
            "widths": (32,) * 4, **_after(2, "gradient_1e-6"), "frozen": ("dense_3", "dense_4")},
             optimizer="sgd", rate=1e-2),
        weak(IMAGES, "vanish-behind-conv", ("conv_2",), options={
            "filters": (8, 8, 8), **_after(2, "gradient_1e-7"), "frozen": ("conv_3",)},
             optimizer="sgd", rate=1e-3),
        weak(SMOOTH, "vanish-behind-1", ("dense_1",), options={
            "widths": (32, 8), **_after(1, "gradient_1e-7")}, optimizer="sgd", rate=1e-3),
    ]  # fmt: skip


def _dead() -> list[Program]:
    def one(base: Program, name: str, layer: str, at: int, bias: float, **more: Any) -> Program:
        options = {"at": {at: _constant(bias)}, **more.pop("options", {})}
        fault = Fault("dead units", layer=_at(layer), symptoms=("dead-units", "zero-gradients"))
        return faulty(base, name, fault, options=options, **more)

    fast = Fault("dead units", symptoms=("dead-units", "learning-rate-too-high", "zero-gradients",
                 "loss-diverging", "exploding-gradients", "constant-output",
                 "non-finite"))  # fmt: skip
    return [
        one(DIGITS, "dead-first", "dense_1", 1, -12.0),
        one(DIGITS, "dead-second", "dense_2", 2, -12.0),
        one(DIGITS, "dead-third", "dense_3", 3, -8.0, options={"widths": (32, 32, 32)}),
        one(IMAGES, "dead-conv", "conv_2", 2, -12.0),
        one(IMAGES, "dead-first-conv", "conv_1", 1, -15.0),
        one(SMOOTH, "dead-smooth", "dense_2", 2, -12.0),
        one(MOONS, "dead-moons", "dense_1", 1, -15.0),
        one(WORDS, "dead-words", "dense_1", 1, -5.0),
        one(BITS, "dead-bits", "dense_2", 2, -12.0),
        one(PIXELS, "dead-code", "dense_2", 2, -12.0),
        faulty(DIGITS, "dead-by-rate-sgd", fast, optimizer="sgd", rate=15.0),
        faulty(IMAGES, "dead-by-rate-cnn", fast, optimizer="sgd", rate=10.0),
        faulty(SMOOTH, "dead-by-rate-smooth", fast, optimizer="sgd", rate=3.0),
        faulty(DIGITS, "dead-by-rate-adam", fast, rate=1.0, options={"widths": (32, 32, 32)}),
    ]  # fmt: skip


def _saturated() -> list[Program]:
    def one(base: Program, name: str, layer: str, **changes: Any) -> Program:
        symptoms = (
            "saturated-activations", "input-scale", "vanishing-gradients", "zero-gradients"
        )  # fmt: skip
        where = (*_at(layer), "input") if "data_options" in changes else _at(layer)
        return faulty(base, name, Fault("saturated", layer=where, symptoms=symptoms), **changes)

    tanh, sigmoid = {"activation": "tanh"}, {"activation": "sigmoid"}
    return [
        one(DIGITS, "saturated-tanh-first", "dense_1", options={**tanh, "at": {1: _normal(20.0)}}),
        one(DIGITS, "saturated-tanh-second", "dense_2", options={**tanh, "at": {2: _normal(20.0)}},
            optimizer="sgd", rate=0.01),
        one(MOONS, "saturated-sigmoid", "dense_1", options={**sigmoid, "at": {
            1: _constant(-30.0)}}),
        one(DIGITS, "saturated-sigmoid-digits", "dense_2", options={**sigmoid, "at": {
            2: {"bias_initializer": ("normal", 40.0)}}}),
        one(SMOOTH, "saturated-tanh-smooth", "dense_1", options={**tanh, "at": {
            1: {"bias_initializer": ("normal", 60.0)}}}),
        one(IMAGES, "saturated-cnn", "conv_2", options={**tanh, "at": {2: _normal(30.0)}},
            optimizer="sgd", rate=1e-3),
        one(DIGITS, "saturated-by-inputs", "dense_1", options=tanh, data_options={
            "scale_inputs": (1e3, 5e3)}),
        one(WORDS, "saturated-words", "dense_1", options={**tanh, "at": {
            1: {"bias_initializer": ("normal", 50.0)}}}),
    ]  # fmt: skip


def _imbalance() -> list[Program]:
    def one(base: Program, name: str, layer: str | None, **changes: Any) -> Program:
        where = _at(layer) if layer else None
        return faulty(base, name, Fault("imbalance", layer=where), **changes)

    sgd = {"optimizer": "sgd", "rate": 0.05}
    return [
        one(DIGITS, "imbalance-below-1", "dense_1", options=_after(1, "gradient_300"), **sgd),
        one(DIGITS, "imbalance-below-2", None, options={
            "widths": (32, 32, 32), **_after(2, "gradient_300")}, **sgd),
        one(BITS, "imbalance-bits", "dense_1", options=_after(1, "gradient_300"), optimizer="sgd",
            rate=0.3),
        one(MOONS, "imbalance-moons", "dense_1", options=_after(1, "gradient_300"), optimizer="sgd",
            rate=3.0),
        one(IMAGES, "imbalance-cnn", "conv_1", options=_after(1, "gradient_300"), optimizer="sgd",
            rate=0.5),
        one(WORDS, "imbalance-words", "embedding", options=_after(0, "gradient_300"),
            optimizer="sgd", rate=10.0),
    ]  # fmt: skip


def programs() -> list[Program]:
    """All of these."""
    families = (
        _non_finite_forward, _non_finite_backward, _exploding, _vanishing, _dead, _saturated,
        _imbalance,
    )  # fmt: skip
    return [program for family in families for program in family()]
