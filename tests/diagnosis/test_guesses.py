"""The best constant guess, and what is known of the rarer classes, against float64 NumPy."""

import numpy as np
import pytest
import torch

from gradwatch.capture.constant_guess import constant_loss
from gradwatch.capture.rest_classes import rest_numbers

RNG = np.random.default_rng(7)
SPARSE = "sparse_categorical_crossentropy"
FRAMEWORKS = {"numpy": (np, np.asarray), "torch": (torch, torch.tensor)}
CLASSES = RNG.integers(0, 4, 50)
WEIGHTS = np.where(CLASSES == 2, 0.0, RNG.random(50))


def entropy(shares):
    shares = shares[shares > 0]
    return float(-(shares * np.log(shares)).sum())


@pytest.fixture(params=FRAMEWORKS.values(), ids=FRAMEWORKS)
def of(request):
    """A guess computed in one of the frameworks, in float32."""
    xp, tensor = request.param

    def guess(loss, targets, weights=None):
        given = [None if x is None else tensor(x.astype("float32")) for x in (targets, weights)]
        return float(constant_loss(xp, loss, *given))

    return guess


def test_weights_make_another_guess_the_best(of):
    shares = np.bincount(CLASSES, WEIGHTS) / WEIGHTS.sum()
    assert of(SPARSE, CLASSES, WEIGHTS) == pytest.approx(entropy(shares), rel=1e-5)
    one_hot = np.eye(4)[CLASSES]
    assert of("categorical_crossentropy", one_hot, WEIGHTS) == pytest.approx(
        entropy(shares), rel=1e-5
    )
    answers = (CLASSES == 1)[:, None]
    share = WEIGHTS[CLASSES == 1].sum() / WEIGHTS.sum()
    expected = entropy(np.array([share, 1 - share]))
    assert of("binary_crossentropy", answers, WEIGHTS) == pytest.approx(expected, rel=1e-5)
    values = RNG.normal(3.0, 2.0, (50, 2))
    middle = np.average(values, axis=0, weights=WEIGHTS)
    expected = np.average((values - middle) ** 2, axis=0, weights=WEIGHTS).mean()
    assert of("mean_squared_error", values, WEIGHTS) == pytest.approx(expected, rel=1e-5)


def test_weights_that_are_all_equal_change_nothing(of):
    for loss, targets in ((SPARSE, CLASSES), ("mean_squared_error", RNG.normal(size=(50, 3)))):
        assert of(loss, targets, np.full(50, 0.3)) == pytest.approx(of(loss, targets), rel=1e-5)


def test_weights_of_0_leave_nothing_to_guess(of):
    assert of(SPARSE, CLASSES, np.zeros(50)) == 0.0
    assert of(SPARSE, CLASSES, np.where(CLASSES == 1, 1.0, 0.0)) == 0.0


@pytest.mark.parametrize("are_weighted", [False, True])
def test_what_the_place_in_a_sentence_tells_needs_no_input(of, are_weighted):
    lengths = RNG.integers(4, 13, (64, 1))
    tags = (RNG.integers(1, 3, (64, 12)) + np.arange(12) % 3) * (np.arange(12) < lengths)
    weights = np.ones(tags.shape)
    if are_weighted:
        weights = (tags > 0) * RNG.uniform(0.5, 1.5, tags.shape)
    total = 0.0
    for labels, own in zip(tags.T, weights.T, strict=True):
        shares = np.bincount(labels, own) / own.sum()
        few = ((shares > 0).sum() - 1) * (own**2).sum() / own.sum() ** 2 / 2
        total += own.sum() * (entropy(shares) + few)
    found = of(SPARSE, tags, weights if are_weighted else None)
    assert found == pytest.approx(total / weights.sum(), rel=1e-4)
    # Without places, it is the entropy of all.
    flat = of(SPARSE, tags.ravel(), weights.ravel() if are_weighted else None)
    shares = np.bincount(tags.ravel(), weights.ravel()) / weights.sum()
    assert flat == pytest.approx(entropy(shares), rel=1e-4)


def test_of_more_classes_than_samples_places_tell_nothing(of):
    words = RNG.integers(0, 5000, (32, 6))
    assert of(SPARSE, words) == pytest.approx(of(SPARSE, words.ravel()), rel=1e-6)


@pytest.mark.parametrize(("xp", "tensor"), FRAMEWORKS.values(), ids=FRAMEWORKS)
def test_how_well_all_but_the_most_frequent_class_are_told_apart(xp, tensor):
    labels = np.concatenate([np.zeros(60, int), RNG.integers(1, 5, 30)])
    logits, weights = RNG.normal(size=(90, 5)), RNG.uniform(0.5, 1.5, 90)
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    given = (tensor(np.asarray(x, "float32")) for x in (np.log(shares), labels, weights))
    found = {name: float(x) for name, x in rest_numbers(xp, *given).items()}
    rest, own = labels > 0, weights[labels > 0]
    known = shares[rest] / (1 - shares[rest, :1])
    losses = -np.log(known[np.arange(30), labels[rest]])
    expected = {
        "rest_share": own.sum() / weights.sum(),
        "rest_loss": np.average(losses, weights=own),
        "rest_guess": entropy(np.bincount(labels[rest], own) / own.sum()),
    }
    assert found == pytest.approx(expected, rel=1e-4)
