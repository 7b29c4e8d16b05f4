"""Small trainings of each kind, with and without a monitor, that tell the weights they end with.

Each takes a monitor, or None, and returns the bytes of all weights. `MONITORS` has the
monitor that suits each.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import numpy as np

import gradwatch

STEPS = 4


WATCHES = {
    "gradients": gradwatch.gradients(histogram=True),
    "weights": gradwatch.weights(histogram=True),
    "outputs": gradwatch.outputs(),
    "output_gradients": gradwatch.output_gradients(),
    "updates": gradwatch.updates(),
    "applied_gradients": gradwatch.applied_gradients(),
}
MONITORS = {"numpy_loop": 2, "torch_seen": 4, "torch_loop": 5, "keras_fit": 6}
"""How many of the watches each training has something for."""


def monitor_for(training: str, directory: Path) -> gradwatch.Monitor:
    """A monitor that measures all there is at every step, and writes it everywhere."""
    return gradwatch.Monitor(
        directory,
        every=1,
        watch=list(WATCHES.values())[: MONITORS[training]],
        sinks=[gradwatch.Store(), gradwatch.TensorBoard(), gradwatch.CSV(), gradwatch.Console()],
    )


def numpy_loop(monitor: Any) -> bytes:
    """A loop of the user's own that hands its tensors to `record`."""
    rng = np.random.default_rng(0)
    weights = {"dense/kernel": rng.normal(size=(3, 2)), "dense/bias": np.zeros(2)}
    for step in range(1, STEPS + 1):
        x, y = rng.normal(size=(8, 3)), rng.normal(size=(8, 2))
        error = x @ weights["dense/kernel"] + weights["dense/bias"] - y
        slopes = {"dense/kernel": x.T @ error / 8, "dense/bias": error.mean(0)}
        if monitor is None or monitor.due(step) in (True, False):
            weights = {name: w - 0.1 * slopes[name] for name, w in weights.items()}
        if monitor is not None:
            monitor.record(
                gradients=slopes, variables=weights, loss=np.square(error).mean(), epoch=step // 3
            )
    if monitor is not None:
        monitor.close()
    return b"".join(w.tobytes() for w in weights.values())


def torch_loop(monitor: Any) -> bytes:
    """A plain torch loop under `gradwatch.watch`."""
    import torch

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    if monitor is not None:
        gradwatch.watch(module, optimizer, monitor)
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        loss = module(torch.randn(8, 3)).square().mean()
        loss.backward()
        optimizer.step()
        if monitor is not None:
            monitor.record(loss=loss, epoch=step // 3)
    if monitor is not None:
        monitor.close()
    return b"".join(p.detach().numpy().tobytes() for p in module.parameters())


def torch_seen(monitor: Any) -> bytes:
    """A torch loop that records what it saw of its layers."""
    import torch

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Sigmoid(), torch.nn.Linear(4, 1))
    for _ in range(STEPS):
        module.zero_grad()
        x = torch.randn(8, 3)
        seen: Any = contextlib.nullcontext()
        if monitor is not None:
            seen = monitor.outputs_of(module)
        with seen:
            module(x).square().mean().backward()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter -= 0.1 * parameter.grad
        if monitor is not None:
            monitor.record(variables=module, outputs=seen)
    if monitor is not None:
        monitor.close()
    return b"".join(p.detach().numpy().tobytes() for p in module.parameters())


def keras_fit(monitor: Any) -> bytes:
    """Keras's `fit` on the backend of KERAS_BACKEND."""
    import keras

    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)], name="net"
    )
    model.compile(keras.optimizers.Adam(0.01), "mse", jit_compile=_compiles(), metrics=["mae"])
    x = np.random.default_rng(1).normal(size=(16, 3)).astype(np.float32)
    y = x.sum(1, keepdims=True)
    model.fit(
        x, y, batch_size=8, epochs=2, callbacks=[] if monitor is None else [monitor], verbose=0
    )
    return b"".join(np.asarray(w).tobytes() for w in model.get_weights())


def _compiles() -> bool:
    # torch.compile needs a compiler of C++, and minutes.
    return os.environ.get("KERAS_BACKEND") != "torch"
