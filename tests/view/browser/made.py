"""Runs that pages are opened of, made of arrays that anybody can make again."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np

import gradwatch
from gradwatch.core import Kind, Reading, Site, Summary
from gradwatch.core.reference import summarize
from gradwatch.store.writer import StoreWriter
from tests.store.recorded import settle
from tests.view.serving import PATIENCE

STEPS = range(1, 241)
EPOCH = 60
LAYERS = ("net/stem/conv", "net/block1/dense", "net/block2/dense", "net/head")
SHAPES = {"kernel": (3, 3, 2, 8), "bias": (8,)}
PATHS = [f"{layer}/{part}" for layer in LAYERS for part in SHAPES]
BAD, BAD_STEPS = "net/block2/dense/bias", range(100, 110)
STOPPED, STOPPED_SINCE = "net/block1/dense/kernel", 120
HISTOGRAMS = 20


def gradient(path: str, step: int, seed: int = 0) -> np.ndarray:
    """A gradient; one stops flowing, and one is not finite for some steps."""
    rng = np.random.default_rng([seed, step, *path.encode("utf-8", "surrogatepass")])
    values = rng.normal(size=SHAPES[path.rpartition("/")[2]]).astype(np.float32) / np.float32(step)
    if seed == 0 and path == BAD and step in BAD_STEPS:
        values[:3] = np.nan, np.inf, -np.inf
    if path == STOPPED and step >= STOPPED_SINCE:
        values[:] = 0.0
    return values


def loss(step: int, seed: int = 0) -> float:
    return float("nan") if seed == 0 and step in BAD_STEPS else (2.0 + seed) / step


def learning_rate(step: int) -> float:
    return 0.01 if step <= EPOCH else 0.001


class _Recording(gradwatch.Store):
    """The store, told a learning rate too, as it is by Keras's `fit`; says when it has written.

    A loop that does nothing but record is faster than the store, and would have steps dropped.
    """

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Semaphore(0)

    def write(self, reading: Reading) -> None:
        rows = [*reading.summary.pack(), summarize(np.float64(learning_rate(reading.step)))]
        super().write(
            replace(
                reading,
                sites=[*reading.sites, Site(Kind.SCALAR, "learning_rate")],
                summary=Summary.unpack(np.array(rows)),
            )
        )
        self.written.release()


def training(
    directory: Path, seed: int = 0, steps: range = STEPS, more: tuple[str, ...] = ()
) -> Path:
    """All kinds of a small network of blocks, with histograms and pictures now and then."""
    paths = [*PATHS, *more]
    rng = np.random.default_rng(seed)
    weights = {path: rng.normal(size=SHAPES[path.rpartition("/")[2]]) for path in paths}
    store = _Recording()
    monitor = gradwatch.Monitor(
        directory,
        every=1,
        watch=[
            gradwatch.gradients(histogram=HISTOGRAMS),
            gradwatch.weights(),
            gradwatch.updates(),
            gradwatch.outputs(),
            gradwatch.pictures("conv/kernel", every=EPOCH),
        ],
        sinks=[store],
    )
    for step in steps:
        gradients = {path: gradient(path, step, seed) for path in paths}
        before = weights
        weights = {
            path: w - learning_rate(step) * np.nan_to_num(gradients[path], posinf=0.0, neginf=0.0)
            for path, w in before.items()
        }
        monitor.record(
            gradients=gradients,
            variables=weights,
            previous=before,
            outputs={layer: rng.normal(size=(4, 8)) for layer in LAYERS},
            loss=loss(step, seed),
            step=step,
            epoch=1 + (step - 1) // EPOCH,
        )
        assert store.written.acquire(timeout=PATIENCE)
    monitor.close()
    return directory


_HARMFUL = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "]]><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' autofocus onfocus='alert(1)",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "<base href=//example.invalid>",
    "<link rel=stylesheet href=//example.invalid/a.css>",
    "<style>*{display:none}</style>",
    "</title></style></textarea><b>",
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "{{constructor.constructor('alert(1)')()}}",
    "${alert(1)}",
    "`alert(1)`",
    "expression(alert(1))",
    "};body{background:url(//example.invalid)}",
    "position:fixed;inset:0;z-index:99",
    "../../etc/passwd",
    "..\\..\\windows",
    "%2e%2e%2f",
    "%00",
    "a?b=c&d=e#f",
    "#/run/other",
    "&lt;b&gt;&amp;&#x3c;",
    "a\x00b",
    "a\x1b[31mred\x07",
    "a\r\nSet-Cookie: x",
    "tab\tand\nline",
    "a\u2028b\u2029c",
    "\u202egnp.exe",
    "\u2066\u2067\u2069\u200f",
    "zero\u200bwidth\u200d\ufeff",
    "\u0301" * 40,
    "\ud800 alone",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f600",
    "\u0627\u0644\u0637\u0628\u0642\u0629",
    "__proto__",
    "constructor",
    "toString",
    "hasOwnProperty",
    "=HYPERLINK(1)",
    "'; DROP TABLE sites; --",
    "x" * 10_000,
    "very-long-part-" * 20,
    " ",
    "",
    "..",
    ".",
    "-",
    "null",
    "NaN",
    "0",
]
_WAYS = (
    "{}",
    "{}/kernel",
    "net/{}/bias",
    "a/{}/b/{}",
    "net/block{}",
    "//{}",
    "{}/",
    "{}{}",
    "x{}",
    "y {}/z",
)
_MADE = dict.fromkeys(way.replace("{}", name) for way in _WAYS for name in _HARMFUL)
HOSTILE = [*[path for path in _MADE if len(path) < 12_000][:499], "net/plain/kernel"]
"""Paths that mean harm: markup, scripts, styles, addresses, control and invisible characters."""
HOSTILE_RUN = '"><img src=x onerror=alert(1)>'
HOSTILE_TWIN = "${alert(1)} \u202e&lt;b&gt;"
HOSTILE_STEPS = range(1, 7)


def hostile_gradient(path: str, step: int) -> np.ndarray:
    rng = np.random.default_rng([step, HOSTILE.index(path)])
    values = rng.normal(size=4).astype(np.float32)
    return np.full_like(values, np.nan) if path == HOSTILE[0] else values


def hostile(place: Path, factor: float = 1.0) -> Path:
    """A run all of whose names mean harm, with a finding that tells them.

    By the store's writer, which takes names as they are; capture tidies some of them.
    """
    writer = StoreWriter(place, first_step=1)
    sites = [*(Site(Kind.GRADIENT, path) for path in HOSTILE), Site(Kind.LOSS, "loss")]
    for step in HOSTILE_STEPS:
        arrays = [
            *(factor * hostile_gradient(path, step) for path in HOSTILE),
            np.float64(1 / step),
        ]
        rows = Summary.unpack(np.array([summarize(array) for array in arrays]))
        writer.write(Reading(step, 1, 1.7e9 + step, sites, rows))
    writer.close()
    settle()
    return place
