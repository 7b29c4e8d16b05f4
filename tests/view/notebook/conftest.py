"""Runs to display."""

import numpy as np
import pytest

import gradwatch
from gradwatch import Histogram, Kind, Reading, Site, Summary
from gradwatch.store.writer import StoreWriter
from tests.cli.support import arrays, make_run
from tests.cli.test_names_and_widths import HOSTILE

MARKUP = (
    "net/<script>alert(1)</script>/kernel",
    'net/"onload="alert(1)/kernel',
    "net/</svg><img src=x onerror=alert(1)>/kernel",
    "net/$\\frac{1}{0}$/kernel",
    "net/&lt;b&gt;/kernel",
)


@pytest.fixture(scope="session")
def truth():
    """Tensors by site and step: NaN at step 7, Inf at 9, a gradient of zeros at 12."""
    truth = arrays()
    truth[Site(Kind.GRADIENT, "net/conv/kernel")][7][1] = float("nan")
    truth[Site(Kind.GRADIENT, "net/dense/bias")][12][:] = 0.0
    truth[Site(Kind.WEIGHT, "net/dense/bias")][9][0] = float("inf")
    return truth


@pytest.fixture(scope="session")
def run(tmp_path_factory, truth):
    directory = tmp_path_factory.mktemp("runs") / "shown"
    make_run(directory, truth)
    return gradwatch.open(directory)


@pytest.fixture(scope="session")
def other(tmp_path_factory):
    """The same network with gradients twice as large, and one that is 0 at step 5."""
    truth = arrays(scale=2.0)
    truth[Site(Kind.GRADIENT, "net/conv/bias")][5][:] = 0.0
    directory = tmp_path_factory.mktemp("runs") / "other"
    make_run(directory, truth)
    return gradwatch.open(directory)


@pytest.fixture(scope="session")
def hostile(tmp_path_factory):
    directory = tmp_path_factory.mktemp("runs") / "<b>hostile\x1b[31m"
    make_run(directory, arrays(paths=(*HOSTILE, *MARKUP)))
    return gradwatch.open(directory)


@pytest.fixture(scope="session")
def with_histograms(tmp_path_factory):
    """A run with histograms, and the tensors that they are of."""
    site, rng = Site(Kind.WEIGHT, "net/a/kernel"), np.random.default_rng(0)
    tensors = {step: rng.normal(step, 1.0, size=2000) for step in (1, 2, 3)}
    writer = StoreWriter(tmp_path_factory.mktemp("runs") / "histograms")
    for step, tensor in tensors.items():
        row = Summary.of(tensor).pack()[None]
        cells = {0: Histogram.of(tensor).cells}
        writer.write(Reading(step, 1, 1e9 + step, [site], Summary.unpack(row), cells))
    writer.close()
    return gradwatch.open(writer.directory), tensors
