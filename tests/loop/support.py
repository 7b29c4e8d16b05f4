"""What the tests of loops share: a sink that keeps everything, and the truth by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradwatch
from gradwatch import Kind, Reading, Site
from gradwatch.sinks import RunInfo

LEARNING_RATE = 0.1


class Keep(gradwatch.Sink):
    """Keeps every reading, in the order in which they came.

    `readings` are what was measured, and `reports` what the training itself reported.
    """

    def __init__(self) -> None:
        self.readings: list[Reading] = []
        self.reports: list[Reading] = []
        self.runs: list[RunInfo] = []
        self.epochs_ended: list[int] = []

    def open(self, run: RunInfo) -> None:
        self.runs.append(run)

    def write(self, reading: Reading) -> None:
        (self.reports if reading.is_report else self.readings).append(reading)

    def epoch_end(self, epoch: int, logs: Any) -> None:
        self.epochs_ended.append(epoch)

    @property
    def steps(self) -> list[int]:
        return [reading.step for reading in self.readings]


def paths(reading: Reading, kind: Kind) -> list[str]:
    return [site.path for site in reading.sites if site.kind is kind]


def assert_measured(
    reading: Reading, kind: Kind, expected: dict[str, Any], rtol: float = 1e-5
) -> None:
    """The sites of the kind are exactly these, and their statistics those of the arrays.

    All written out here, in float64, with nothing of gradwatch's.
    """
    assert set(paths(reading, kind)) == set(expected)
    for path, array in expected.items():
        x = np.asarray(array, np.float64)
        finite = x[np.isfinite(x)]
        truth = {
            "count": x.size,
            "nan": np.isnan(x).sum(),
            "zeros": (x == 0).sum(),
            "sum": finite.sum(),
            "l1": np.abs(finite).sum(),
            "l2": np.sqrt((finite**2).sum()),
            "linf": np.abs(finite).max(),
            "rms": np.sqrt((finite**2).mean()),
            "mean": finite.mean(),
            "min": finite.min(),
            "max": finite.max(),
        }
        scale = float(np.abs(finite).sum())
        for name, value in truth.items():
            got = reading.statistic(name)[reading.position[Site(kind, path)]]
            np.testing.assert_allclose(
                got, value, rtol=rtol, atol=rtol * scale, err_msg=f"{kind} {path} {name}"
            )


def assert_no_elements(reading: Reading, kind: Kind, path: str) -> None:
    assert reading.statistic("count")[reading.position[Site(kind, path)]] == 0


class Line:
    """Linear regression whose every step is known in closed form, in float64."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.kernel = rng.normal(size=(3, 2)).astype("float32")
        self.bias = rng.normal(size=2).astype("float32")
        self._rng = rng

    def batch(self) -> tuple[np.ndarray, np.ndarray]:
        x, y = self._rng.normal(size=(4, 3)), self._rng.normal(size=(4, 2))
        return x.astype("float32"), y.astype("float32")

    @staticmethod
    def loss(kernel: Any, bias: Any, x: Any, y: Any) -> float:
        kernel, bias, x, y = (np.asarray(a, np.float64) for a in (kernel, bias, x, y))
        return float(((x @ kernel + bias - y) ** 2).mean())

    @staticmethod
    def gradients(kernel: Any, bias: Any, x: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        kernel, bias, x, y = (np.asarray(a, np.float64) for a in (kernel, bias, x, y))
        error = 2.0 * (x @ kernel + bias - y) / y.size
        return x.T @ error, error.sum(axis=0)
