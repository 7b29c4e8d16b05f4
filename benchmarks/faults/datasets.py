"""Small data sets by name: a function of a random generator, the size and options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
VALIDATION = 200


@dataclass
class Data:
    """What a program trains on, and what it is judged by.

    Attributes:
        x, y: for training.
        val_x, val_y: for validation during training.
        truth: the right answers for `judged_x`, before any fault in the data.
        task: how answers are judged: `classes`, `binary`, `columns`, `values` or
            `direction`.
    """

    x: Array
    y: Array
    val_x: Array
    val_y: Array
    judged_x: Array
    truth: Array
    task: str


def make(name: str, rng: np.random.Generator, size: int, options: dict[str, Any]) -> Data:
    """The data set of that name.

    Args:
        name: a key of `SETS`.
        rng: where all randomness comes from.
        size: how many samples to train on.
        options: of the data set, and of `spoil`.
    """
    options = dict(options)
    spoilt = {key: options.pop(key) for key in tuple(options) if key in _SPOIL}
    x, y, task = SETS[name](rng, size + VALIDATION, **options)
    x = x.astype("float32") if x.dtype.kind == "f" else x
    y = y.astype("float32") if y.dtype.kind == "f" else y
    data = Data(x[:size], y[:size], x[size:], y[size:], x[size:], y[size:], task)
    for key, value in spoilt.items():
        _SPOIL[key](data, value)
    return data


def _digits(rng, n, image=False, scale=1.0, binary=False):
    from sklearn.datasets import load_digits

    found = load_digits()
    order = rng.permutation(len(found.data))
    order = np.resize(order, n)
    x = (found.data[order] / 16.0 - 0.3) / 0.38 * scale
    y = found.target[order]
    if image:
        x = x.reshape(-1, 8, 8, 1)
    return (
        x,
        (y >= 5).astype("float32") if binary else y.astype("int64"),
        ("binary" if binary else "classes"),
    )


def _digit_bits(rng, n):
    x, y, _ = _digits(rng, n)
    return x, np.stack([(y >> b) & 1 for b in range(4)], -1).astype("float32"), "columns"


def _digit_pixels(rng, n, noise=0.0, task="values"):
    """To be reconstructed: pixels from 0 to 1."""
    x, _, _ = _digits(rng, n)
    pixels = np.clip(x * 0.38 + 0.3, 0, 1)
    return pixels + noise * rng.normal(size=pixels.shape), pixels, task


def _moons(rng, n, noise=0.15, labels=(0.0, 1.0), share=0.5):
    kind = rng.random(n) < share
    angle = rng.uniform(0, np.pi, n)
    x = np.where(kind, 1 - np.cos(angle), np.cos(angle))
    y = np.where(kind, 0.5 - np.sin(angle), np.sin(angle))
    points = np.stack([x, y], -1) + noise * rng.normal(size=(n, 2))
    return (points - [0.5, 0.25]) / [0.87, 0.5], np.where(kind, *labels[::-1]), "binary"


def _blobs(rng, n, classes=4, features=8, spread=0.5):
    centres = rng.normal(size=(classes, features))
    y = rng.integers(0, classes, n)
    x = centres[y] + spread * rng.normal(size=(n, features))
    return x / np.sqrt(1 + spread**2), y.astype("int64"), "classes"


def _smooth(rng, n, features=6, scale=1.0, offset=0.0, noise=0.1):
    """Regression on a smooth function; mean about `offset`, deviation about `scale`."""
    x = rng.normal(size=(n, features))
    y = np.sin(1.5 * x[:, 0]) + 0.5 * x[:, 1] * x[:, 2] + 0.7 * x[:, 3]
    y = (y + noise * rng.normal(size=n)) / 1.1
    return x, (y * scale + offset)[:, None], "values"


def _linear(rng, n, features=10, noise=0.1, scale=1.0):
    x = rng.normal(size=(n, features))
    w = rng.normal(size=features) / np.sqrt(features)
    return x, ((x @ w + noise * rng.normal(size=n)) * scale)[:, None], "values"


def _counts(rng, n):
    x = rng.normal(size=(n, 5))
    return x, rng.poisson(np.exp(0.8 * x[:, 0] - 0.6 * x[:, 1] + 0.7))[:, None] * 1.0, "values"


def _unit_interval(rng, n):
    x, y, task = _smooth(rng, n)
    return x, 1 / (1 + np.exp(-1.5 * y)), task


def _symmetric_interval(rng, n):
    x, y, task = _smooth(rng, n)
    return x, 0.9 * np.tanh(y), task


def _waves(rng, n, length=12, features=2, classes=3):
    """Sequences whose frequency is to be told."""
    y = rng.integers(0, classes, n)
    t = np.arange(length) / length * 2 * np.pi
    phase = rng.uniform(0, 2 * np.pi, (n, 1))
    wave = np.sin((1 + y[:, None]) * t + phase)
    x = np.stack([wave, np.cos((1 + y[:, None]) * t + phase)][:features], -1)
    return x + 0.2 * rng.normal(size=x.shape), y.astype("int64"), "classes"


def _first_sign(rng, n, length=10):
    """The sign of the first value decides: a recurrent network must remember it."""
    x = rng.normal(size=(n, length, 1))
    return x, (x[:, 0, 0] > 0).astype("float32"), "binary"


def _tokens(rng, n, vocabulary=60, length=12, classes=3):
    """Each class prefers a third of the words; half of the vocabulary is rare."""
    y = rng.integers(0, classes, n)
    share = vocabulary // 2 // classes
    own = rng.integers(0, share, (n, length)) + y[:, None] * share
    other = (vocabulary * rng.random((n, length)) ** 2).astype("int64")
    return np.where(rng.random((n, length)) < 0.4, own, other), y.astype("int64"), "classes"


def _marked(rng, n, length=8, classes=4):
    """One of the tokens is marked, and tells the class; the first one is the same in all."""
    x = rng.integers(0, classes, (n, length))
    place = rng.integers(1, length, n)
    y = x[np.arange(n), place]
    x[np.arange(n), place] += classes
    x[:, 0] = 2 * classes
    return x, y.astype("int64"), "classes"


def _one_hot_words(rng, n):
    """Bags of words: nearly all inputs are 0."""
    tokens, y, task = _tokens(rng, n, vocabulary=120)
    x = np.zeros((n, 120))
    np.add.at(x, (np.arange(n)[:, None], tokens), 1.0)
    return x, y, task


def _cloud(rng, n):
    """What a generator is to imitate: a cloud of points around (1, -1), of deviation 0.5."""
    x = np.array([1.0, -1.0]) + 0.5 * rng.normal(size=(n, 2))
    return x, x, "values"


SETS: dict[str, Callable[..., tuple[Array, Array, str]]] = {
    "digits": _digits,
    "digit_bits": _digit_bits,
    "digit_pixels": _digit_pixels,
    "moons": _moons,
    "blobs": _blobs,
    "smooth": _smooth,
    "linear": _linear,
    "counts": _counts,
    "unit_interval": _unit_interval,
    "symmetric_interval": _symmetric_interval,
    "waves": _waves,
    "first_sign": _first_sign,
    "tokens": _tokens,
    "marked": _marked,
    "one_hot_words": _one_hot_words,
    "cloud": _cloud,
}


# What can be wrong with data. Inputs that are scaled wrongly are so at all times; what is not
# finite is only in the training data, and the answers that a model is judged by stay right.


def _scale_inputs(data: Data, how: Any) -> None:
    scale, offset = how if isinstance(how, tuple) else (how, 0.0)
    for name in ("x", "val_x", "judged_x"):
        setattr(data, name, (getattr(data, name) * scale + offset).astype("float32"))


def _scale_one_feature(data: Data, scale: float) -> None:
    for x in (data.x, data.val_x):
        x[..., 0] *= scale


def _spoil_input(data: Data, where: tuple[int, float]) -> None:
    row, value = where
    data.x[row].reshape(-1)[0] = value


def _spoil_target(data: Data, where: tuple[int, float]) -> None:
    row, value = where
    data.y[row] = value


def _change_labels(data: Data, change: tuple[float, float]) -> None:
    factor, offset = change
    data.y, data.val_y = data.y * factor + offset, data.val_y * factor + offset


def _shuffle_labels(data: Data, share: float) -> None:
    rng = np.random.default_rng(0)
    wrong = np.flatnonzero(rng.random(len(data.y)) < share)
    data.y = data.y.copy()
    data.y[wrong] = data.y[rng.permutation(wrong)]


def _sort_by_label(data: Data, _: bool) -> None:
    order = np.argsort(data.y.reshape(len(data.y), -1)[:, 0], kind="stable")
    data.x, data.y = data.x[order], data.y[order]


_SPOIL: dict[str, Callable[[Data, Any], None]] = {
    "scale_inputs": _scale_inputs,
    "scale_one_feature": _scale_one_feature,
    "spoil_input": _spoil_input,
    "spoil_target": _spoil_target,
    "change_labels": _change_labels,
    "shuffle_labels": _shuffle_labels,
    "sort_by_label": _sort_by_label,
}
