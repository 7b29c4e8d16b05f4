"""The losses of single samples: the worst are recorded at every step, and named."""

import numpy as np
import pytest

import gradwatch
from gradwatch.capture.sample_losses import worst_samples
from gradwatch.core import WorstSample
from tests.loop.test_losses_and_metrics import FRAMEWORKS, opened, tensor

RNG = np.random.default_rng(0)


def truth(losses, names=None):
    """In float64: the worst three, as (index, loss, name)."""
    each = np.asarray(losses, np.float64).reshape(len(losses), -1).mean(1)
    worst = sorted(range(each.size), key=lambda i: (-np.nan_to_num(each[i], nan=np.inf), i))[:3]
    return [WorstSample(i, each[i], None if names is None else int(names[i])) for i in worst]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_worst_samples_of_all_steps_are_recorded(tmp_path, framework):
    batches = RNG.exponential(size=(40, 16)).astype("f")
    names = RNG.permutation(10**7)[: 40 * 16].reshape(40, 16)
    monitor = opened(tmp_path, every=10)
    for losses, own in zip(batches, names, strict=True):
        given = tensor(framework, losses)
        monitor.record(loss=float(losses.mean()), losses=given, samples=tensor("numpy", own))
    monitor.close()
    run = gradwatch.open(tmp_path)
    expected = {i + 1: truth(*each) for i, each in enumerate(zip(batches, names, strict=True))}
    assert run.samples() == expected
    steps, medians = run.series("sample_loss", "median", "value")
    np.testing.assert_allclose(medians, np.median(batches.astype("f8"), axis=1), rtol=1e-12)
    assert steps.tolist() == list(range(1, 41))


@pytest.mark.parametrize(
    "losses",
    [[3.0], [1.0, 2.0], [[1.0, 5.0], [2.0, 3.0]], [1.0, np.nan, np.inf, 7.0], [-2.0, -1.0, 0.0]],
)
def test_any_losses_have_a_worst(losses):
    numbers = {site.path: x for site, x in worst_samples(np.array(losses)).items()}
    expected = truth(losses)
    got = [(numbers[f"{i}/index"], numbers[f"{i}/loss"]) for i in range(1, len(expected) + 1)]
    np.testing.assert_equal(got, [(float(x.index), x.loss) for x in expected])
    assert numbers["samples"] == len(losses)


def test_losses_that_are_given_later_values_do_not_change(tmp_path):
    torch = pytest.importorskip("torch")
    losses, monitor = torch.arange(4.0), opened(tmp_path)
    for _ in range(3):
        monitor.record(losses=losses)
        losses += 1
    monitor.close()
    worst = [samples[0].loss for samples in gradwatch.open(tmp_path).samples().values()]
    assert worst == [3.0, 4.0, 5.0]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"losses": 0.5}, "before it is reduced"),
        ({"losses": {"first": np.ones(3)}}, "losses= .* Received: dict. .* as metrics="),
        ({"losses": np.ones(3), "samples": [1, 2]}, "a whole number for each"),
        ({"losses": np.ones(2), "samples": ["a", "b"]}, "a whole number for each"),
        ({"loss": 1.0, "samples": [1]}, "which is not given"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, arguments, says):
    with opened(tmp_path) as monitor, pytest.raises((TypeError, ValueError), match=says):
        monitor.record(**arguments)


def test_a_spike_under_the_default_names_its_sample(tmp_path):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.02)
    monitor = gradwatch.watch(model, optimizer, tmp_path, sinks=[gradwatch.Store()])
    for step in range(1, 161):
        x = torch.randn(32, 4)
        y = x.sum(1) + 0.1 * torch.randn(32)
        if step == 133:
            y[17] = 80.0
        optimizer.zero_grad()
        losses = (model(x)[:, 0] - y) ** 2
        losses.mean().backward()
        optimizer.step()
        monitor.record(loss=losses.mean(), losses=losses, samples=torch.arange(32) + 1000)
    monitor.close()
    (spike,) = [finding for finding in monitor.findings if finding.rule == "loss-spike"]
    assert (spike.since, spike.severity) == (133, "warning")
    assert "by sample 1017 (sample 17 of the batch)" in spike.title
