"""The gradient noise scale, on gradients of known covariance."""

import math

import numpy as np
import pytest

import gradwatch
from gradwatch.read.gradient_noise import estimate

PARTS, SIZE = 4, 3


def record(directory, batches, *, adds_up=False, clip=None, steps=None):
    """Record each step's parts, dicts of gradients by path, and their mean or sum."""
    with gradwatch.Monitor(
        directory, every=1, sinks=[gradwatch.Store()], diagnose=False
    ) as monitor:
        for step, parts in enumerate(batches, 1):
            for i, part in enumerate(parts):
                monitor.record(gradients=part, micro_batch=i, step=step)
            whole = {path: np.sum([p[path] for p in parts], axis=0) for path in parts[0]}
            scale = 1.0 if adds_up else 1 / len(parts)
            whole = {path: scale * g for path, g in whole.items()}
            if clip is not None:
                norm = math.sqrt(sum(float((g**2).sum()) for g in whole.values()))
                whole = {path: g * min(1, clip / norm) for path, g in whole.items()}
            monitor.record(gradients=whole, step=step)
    return gradwatch.open(directory)


def drawn(seed, steps, parts=PARTS, size=SIZE):
    """Parts of samples with a known mean and covariance, and the noise scales by path."""
    rng = np.random.default_rng(seed)
    mean = {"net/a/kernel": rng.normal(size=300) * 0.5, "net/b/bias": rng.normal(size=100)}
    spread = {path: np.abs(rng.normal(size=m.size)) * 3 for path, m in mean.items()}
    batches = [
        [
            {path: rng.normal(m, spread[path] / math.sqrt(size)) for path, m in mean.items()}
            for _ in range(parts)
        ]
        for _ in range(steps)
    ]
    squares = {
        path: (m @ m, s @ s) for (path, m), s in zip(mean.items(), spread.values(), strict=True)
    }
    truth = {path: noise / signal for path, (signal, noise) in squares.items()}
    signal, noise = np.sum(list(squares.values()), axis=0)
    return batches, truth | {"model": noise / signal}


@pytest.mark.parametrize("adds_up", [False, True])
def test_it_is_within_ten_percent_of_the_truth_whether_parts_are_added_or_averaged(
    tmp_path, adds_up
):
    batches, truth = drawn(0, 150)
    run = record(tmp_path / "a", batches, adds_up=adds_up)
    for path, name in (("model", "model"), ("a", "net/a/kernel"), ("net/b", "net/b/bias")):
        found = gradwatch.noise_scale(run, SIZE, path)
        assert found.value == pytest.approx(truth[name], rel=0.1)
        assert 0 < found.error < 0.1 * found.value
        assert (found.steps, found.parts) == (150, PARTS)
    some = gradwatch.noise_scale(run, micro_batch_size=SIZE, steps=(11, 60))
    assert some.steps == 50
    assert some.error > gradwatch.noise_scale(run, SIZE).error
    assert str(some).endswith(" samples, of 50 steps")


def test_the_error_tells_how_far_the_value_is_from_the_truth():
    far = []
    for seed in range(200):
        batches, truth = drawn(seed, 40)
        parts = [[np.concatenate(list(p.values())) for p in own] for own in batches]
        squares = np.array([(np.mean(own, axis=0) ** 2).sum() for own in parts])
        means = np.array([np.mean([(p**2).sum() for p in own]) for own in parts])
        found = estimate(squares, means, np.full(40, float(PARTS)), SIZE)
        far.append((found.value - truth["model"]) / found.error)
    # 95 % of a normal distribution are within 1.96 errors.
    assert 0.88 < np.mean(np.abs(far) < 1.96) < 0.99
    assert abs(np.mean(far)) < 0.3


def test_gradients_of_real_samples_in_torch(tmp_path):
    """Least squares without training: the covariance over the data is the truth."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(50, 20)), rng.normal(size=50)
    weights = torch.tensor(rng.normal(size=20), requires_grad=True)
    samples = 2 * (x @ weights.detach().numpy() - y)[:, None] * x
    mean = samples.mean(axis=0)
    truth = ((samples - mean) ** 2).sum() / 50 / (mean @ mean)
    with gradwatch.Monitor(tmp_path, every=1, sinks=[gradwatch.Store()], diagnose=False) as monitor:
        for step in range(1, 201):
            weights.grad = None
            for i in range(PARTS):
                chosen = rng.integers(50, size=SIZE)
                part = torch.tensor(x[chosen]) @ weights - torch.tensor(y[chosen])
                (gradient,) = torch.autograd.grad(part.square().mean() / PARTS, [weights])
                weights.grad = gradient + (0 if weights.grad is None else weights.grad)
                monitor.record(
                    gradients=[gradient], variables={"w": weights}, micro_batch=i, step=step
                )
            monitor.record(gradients=[weights.grad], variables={"w": weights}, step=step)
    found = gradwatch.noise_scale(gradwatch.open(tmp_path), SIZE)
    assert found.value == pytest.approx(truth, rel=0.1)


def test_a_gradient_that_is_only_noise_has_no_finite_scale():
    rng = np.random.default_rng(0)
    parts = rng.normal(size=(1, PARTS, 1000))
    squares = (parts.mean(axis=1) ** 2).sum(axis=1)
    found = estimate(0 * squares, (parts**2).sum(axis=2).mean(axis=1), np.array([4.0]), SIZE)
    assert found.value == math.inf
    assert math.isnan(found.error)


def test_what_cannot_be_known_is_an_error(tmp_path):
    batches, _ = drawn(0, 4)
    run = record(tmp_path / "a", batches, clip=0.5)
    with pytest.raises(ValueError, match="clipped, or they count differently"):
        gradwatch.noise_scale(run, SIZE)
    with pytest.raises(LookupError, match=r"gradients of 'net/c' of several micro-batches"):
        gradwatch.noise_scale(run, SIZE, "net/c")
    with pytest.raises(ValueError, match=r"above 0\. Received: 0"):
        gradwatch.noise_scale(run, 0)
    alone = record(tmp_path / "b", [parts[:1] for parts in batches])
    with pytest.raises(LookupError, match="No step has gradients"):
        gradwatch.noise_scale(alone, SIZE)
