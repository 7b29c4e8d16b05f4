"""Blocks whose tensors pass taps, and the truth by hand, in float64."""

import numpy as np

from gradwatch import Kind
from tests.loop.support import assert_measured

BLOCKS = 24
_rng = np.random.default_rng(0)
WEIGHTS = (_rng.normal(size=(BLOCKS, 6, 6)) / np.sqrt(6) * 1.5).astype("f")
X = _rng.normal(size=(4, 6)).astype("f")


def truth(blocks=BLOCKS, x=X, weights=WEIGHTS):
    """The outputs of h = tanh(h @ w), and the gradients of mean(h**2) with respect to them."""
    outputs, h = [], x.astype("f8")
    for w in weights[:blocks].astype("f8"):
        h = np.tanh(h @ w)
        outputs.append(h)
    gradients, slope = [], 2 * h / h.size
    for h, w in zip(outputs[::-1], weights[:blocks][::-1].astype("f8"), strict=True):
        gradients.append(slope)
        slope = (slope * (1 - h**2)) @ w.T
    return outputs, gradients[::-1]


def assert_blocks(reading, paths, x=X, weights=WEIGHTS):
    """The blocks are recorded under these paths, with their gradients."""
    outputs, gradients = truth(len(paths), x, weights)
    assert_measured(reading, Kind.OUTPUT, dict(zip(paths, outputs, strict=True)))
    assert_measured(reading, Kind.OUTPUT_GRADIENT, dict(zip(paths, gradients, strict=True)))
