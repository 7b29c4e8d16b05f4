"""Runs with known numbers, for reports."""

import numpy as np

import gradwatch
from tests.store.recorded import settle

STEPS = range(1, 31)
LAYERS = ("conv", "hidden", "logits")
HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    '"><svg onload=alert(1)>',
    "' autofocus onfocus=alert(1) '",
    "a\u2028b\u2029c",
    "\u202egnp.exe",
    "{{constructor.constructor('alert(1)')()}}",
    "${alert(1)}",
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "a\x00b\x1b[31m",
    "| a | b |\n|---|---|",
    "`code` **bold** [link](http://example.invalid) @all #1",
    "&lt;b&gt;&amp;",
    "__proto__",
    "constructor",
    "toString",
    "x" * 10_000,
    "ü😀é",
    "..",
    "a//b",
    " ",
]


def golden(directory):
    """Three layers: one stops learning, and the gradient of one has NaN and Inf at the end."""
    rng = np.random.default_rng(0)
    sites = [f"net/{layer}/{part}" for layer in LAYERS for part in ("kernel", "bias")]
    monitor = gradwatch.Monitor(
        directory,
        every=1,
        watch=[
            gradwatch.gradients(histogram=True),
            gradwatch.weights(histogram=True),
            gradwatch.updates(),
            gradwatch.pictures("conv/kernel", every=10),
        ],
        sinks=[gradwatch.Store()],
    )
    weights = {path: rng.normal(size=(3, 4) if "kernel" in path else 4) for path in sites}
    for step in STEPS:
        gradients = {path: rng.normal(size=w.shape) / step for path, w in weights.items()}
        if step > 10:
            gradients["net/hidden/kernel"] = np.zeros((3, 4))
        if step >= 20:
            gradients["net/logits/bias"] = np.array([np.nan, np.inf, 1.0, 2.0])
        before = weights
        steps = {path: 0.01 * np.nan_to_num(g, posinf=0.0) for path, g in gradients.items()}
        weights = {path: w - steps[path] for path, w in before.items()}
        monitor.record(
            gradients=gradients, variables=weights, previous=before, loss=2.0 / step, step=step
        )
    monitor.close()
    settle()
    return directory


def hostile(directory):
    """Layers by names that mean harm, and findings that name them."""
    rng = np.random.default_rng(1)
    names = [f"{name}/kernel" for name in HOSTILE] + HOSTILE
    with gradwatch.Monitor(directory, every=1, sinks=[gradwatch.Store()]) as monitor:
        for step in range(1, 13):
            gradients = {name: rng.normal(size=3) for name in names}
            if step > 3:
                gradients[names[0]] = np.full(3, np.nan)
            variables = {name: rng.normal(size=3) for name in names}
            monitor.record(gradients=gradients, variables=variables, loss=1.0 / step, step=step)
    settle()
    return directory
