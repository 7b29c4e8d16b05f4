"""How much memory a measured step of Keras on torch takes, beside what a bare one does."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest

import gradwatch

if keras.backend.backend() != "torch":
    pytest.skip("of torch's own", allow_module_level=True)

from benchmarks.live_bytes import LiveBytes
from gradwatch.measure import torch_eager
from gradwatch.measure.kernels import torch_cpu

WIDTH, DEPTH, BATCH, STEPS = 64, 24, 512, 3
ACTIVATION = 4 * WIDTH * BATCH
WEIGHTS = 4 * DEPTH * (WIDTH * WIDTH + WIDTH)
WAITING = 3 * ACTIVATION
EVERYTHING = [
    gradwatch.gradients(),
    gradwatch.weights(),
    gradwatch.outputs(per_unit=True),
    gradwatch.output_gradients(histogram=True),
]


class Peaks(keras.callbacks.Callback):
    """Of each step, the most bytes of tensors alive, and those that its end leaves alive."""

    def __init__(self, live: Any) -> None:
        super().__init__()
        self.live = live
        self.most: list[int] = []
        self.left: list[int] = []

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.live.restart()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.most.append(self.live.most)
        self.left.append(self.live.now)


@pytest.fixture(autouse=True)
def no_garbage() -> Iterator[None]:
    """When garbage is looked for must not matter."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few bytes wait, and measuring takes few itself, as next to those of a large model."""
    monkeypatch.setattr(torch_eager, "MOST_WAITING", WAITING)
    monkeypatch.setattr(torch_cpu, "BLOCK", 1 << 10)
    monkeypatch.setattr(torch_cpu, "SMALL", 1 << 8)
    monkeypatch.setattr(torch_cpu, "_kept", threading.local())  # Buffers of these sizes.


def peaks(*callbacks: Any, policy: str = "float32", optimizer: Any = "sgd") -> Peaks:
    """Train a deep network, whose activations are most of its memory."""
    keras.utils.set_random_seed(0)
    layers = [
        keras.layers.Dense(WIDTH, activation="relu", dtype=policy, name=f"dense_{i}")
        for i in range(DEPTH)
    ]
    model = keras.Sequential([keras.Input((WIDTH,)), *layers], name="net")
    model.compile(optimizer, "mse", run_eagerly=True)
    x = np.random.default_rng(0).normal(size=(STEPS * BATCH, WIDTH)).astype("float32")
    live = LiveBytes()
    found = Peaks(live)
    with live:
        model.fit(x, x, batch_size=BATCH, verbose=0, shuffle=False, callbacks=[*callbacks, found])
    return found


@pytest.mark.usefixtures("small_bounds")
def test_outputs_and_their_gradients_do_not_wait_for_the_end_of_the_step(
    make_monitor: Callable[..., Any],
) -> None:
    monitor, keep = make_monitor(watch=EVERYTHING, every=1, diagnose=False)
    bare, watched = peaks(), peaks(monitor)
    assert keep.steps == [1, 2, 3]
    counts = keep.series(gradwatch.Kind.OUTPUT_GRADIENT, "net/dense_3", "count")
    assert counts == [WIDTH * BATCH] * STEPS
    # For the backward pass, activations are kept in any case.
    assert bare.most[-1] > DEPTH * ACTIVATION
    # As many gradients would show. Those that are measured are copied for their histograms.
    assert watched.most[-1] - bare.most[-1] < WAITING + 4 * ACTIVATION


@pytest.mark.usefixtures("small_bounds")
@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_a_measured_step_leaves_nothing_large_behind(
    make_monitor: Callable[..., Any], policy: str
) -> None:
    watch = [gradwatch.gradients(), gradwatch.updates(), gradwatch.outputs()]
    monitor, keep = make_monitor(watch=watch, every=2, diagnose=False)
    bare, watched = peaks(policy=policy), peaks(monitor, policy=policy)
    assert keep.steps == [2]
    assert watched.left[1] - bare.left[1] < WEIGHTS / 4
    assert watched.most[2] - bare.most[2] < WEIGHTS / 4


def test_only_the_weights_whose_updates_are_watched_are_copied(
    make_monitor: Callable[..., Any],
) -> None:
    def alive_at_update(*names: str) -> int:
        live = LiveBytes()
        seen: list[int] = []

        class Looking(keras.optimizers.SGD):  # type: ignore[misc]
            def update_step(self, *args: Any) -> None:
                seen.append(live.now)
                super().update_step(*args)

        keras.utils.set_random_seed(0)
        layers = [keras.layers.Dense(WIDTH, name=name) for name in "ab"]
        model = keras.Sequential([keras.Input((WIDTH,)), *layers])
        model.compile(Looking(), "mse", run_eagerly=True)
        monitor, _ = make_monitor(watch=gradwatch.updates(*names), every=1, diagnose=False)
        with live:
            x = np.ones((4, WIDTH), "float32")
            model.fit(x, x, verbose=0, callbacks=[monitor])
        return seen[0]

    one = 4 * (WIDTH * WIDTH + WIDTH)
    assert abs(alive_at_update() - alive_at_update("a") - one) < one / 4
