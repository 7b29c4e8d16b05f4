"""The spectral norm against NumPy's singular values."""

import numpy as np
import pytest

from gradwatch.watches.probes.spectral import SpectralNorm

rng = np.random.default_rng(0)


def truth(x):
    return np.linalg.norm(np.asarray(x, float).reshape(-1, np.shape(x)[-1]), 2)


@pytest.mark.parametrize(
    "x",
    [
        rng.normal(size=(30, 20)),
        rng.normal(size=(20, 300)).astype(np.float32),
        rng.normal(size=(3, 3, 4, 8)),
        rng.normal(size=7),
        np.outer(rng.normal(size=5), rng.normal(size=6)),
        np.eye(9),
        np.diag([1.0, 0.999, 0.5]),
        1e-30 * rng.normal(size=(5, 5)),
        1e200 * rng.normal(size=(5, 5)),
        np.array([[1.0, -1.0]]),
    ],
)
def test_it_is_the_largest_singular_value(x):
    assert SpectralNorm()(x) == pytest.approx(truth(x), rel=1e-5)


def test_from_step_to_step_it_follows_the_weight():
    norm = SpectralNorm()
    x = rng.normal(size=(40, 30))
    for _ in range(5):
        x = x + 0.05 * rng.normal(size=x.shape)
        assert norm(x) == pytest.approx(truth(x), rel=1e-5)


def test_it_leaves_a_direction_that_has_become_a_lesser_one():
    norm = SpectralNorm()
    assert norm(np.diag([2.0, 1.0])) == pytest.approx(2.0)
    assert norm(np.diag([2.0, 9.0])) == pytest.approx(9.0)


def test_a_warm_start_needs_fewer_products():
    x = rng.normal(size=(60, 60))
    cold = SpectralNorm(most=3)
    warm = SpectralNorm(most=3)
    for _ in range(30):
        last = warm(x)
    assert abs(last - truth(x)) < abs(cold(x) - truth(x))


def test_zero_empty_scalar_and_non_finite_tensors_have_an_answer():
    norm = SpectralNorm()
    assert norm(np.zeros((3, 4))) == 0.0
    assert norm(np.zeros((0, 4))) == 0.0
    assert norm(-2.5) == 2.5
    assert np.isnan(norm(np.array([[1.0, np.nan]])))
    assert np.isnan(norm(np.array([[1.0, np.inf]])))
