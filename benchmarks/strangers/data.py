"""Data that the programs of several families share; all of it bundled or made up."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.faults.datasets import Data, make
from benchmarks.faults.outcome import score

__all__ = ["Data", "accuracy", "bundled", "made", "score", "shapes", "split", "standardised"]

Array = NDArray[Any]


def made(name: str, seed: int, size: int = 600, **options: Any) -> Data:
    """A data set of the fault benchmark."""
    return make(name, np.random.default_rng([seed, 7]), size, options)


def bundled(name: str, seed: int) -> tuple[Array, Array, Array, Array]:
    """A data set that comes with scikit-learn, shuffled: x, y, and a quarter held out."""
    import sklearn.datasets

    found = getattr(sklearn.datasets, f"load_{name}")()
    return split(found.data.astype("float32"), found.target, seed)


def split(x: Array, y: Array, seed: int, share: float = 0.25) -> tuple[Array, Array, Array, Array]:
    """Shuffled; a share is held out."""
    order = np.random.default_rng([seed, 8]).permutation(len(x))
    held = int(len(x) * share)
    train, test = order[held:], order[:held]
    return x[train], y[train], x[test], y[test]


def standardised(x: Array, *others: Array) -> tuple[Array, ...]:
    """Each feature with mean 0 and deviation 1 in the first."""
    mean, deviation = x.mean(0), x.std(0) + 1e-8
    return tuple(((each - mean) / deviation).astype("float32") for each in (x, *others))


def accuracy(truth: Array, answer: Array) -> float:
    """The share of right classes, above always guessing the most frequent one; 1 is all right.

    Args:
        truth: the classes.
        answer: of the model: a column per class; or one number, above 0 for class 1.
    """
    answer = np.asarray(answer, "float64").reshape(len(truth), -1)
    if not np.isfinite(answer).all():
        return -1.0
    chosen = answer.argmax(1) if answer.shape[1] > 1 else answer[:, 0] > 0
    guess = np.bincount(np.asarray(truth, "int64")).max() / len(truth)
    return float((np.mean(chosen == truth) - guess) / (1 - guess))


def shapes(seed: int, n: int = 500, side: int = 12) -> tuple[Array, Array]:
    """Noisy images with a filled square, a ring, a cross or stripes; which is to be told."""
    rng = np.random.default_rng([seed, 9])
    kind = rng.integers(0, 4, n)
    images = 0.15 * rng.normal(size=(n, side, side))
    grid = np.arange(side)
    for image, which in zip(images, kind, strict=True):
        top, left = rng.integers(0, side - 6, 2)
        size = rng.integers(4, 7)
        down, right = slice(top, top + size), slice(left, left + size)
        if which == 0:
            image[down, right] += 1
        elif which == 1:
            image[down, right] += 1
            image[top + 1 : top + size - 1, left + 1 : left + size - 1] -= 1
        elif which == 2:
            image[top + size // 2, right] += 1
            image[down, left + size // 2] += 1
        else:
            image[down, right] += (grid[:size] % 2)[:, None]
    return images.astype("float32"), kind.astype("int64")
