"""Rules about what the optimizer makes of gradients: in made-up courses and in real trainings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import gradwatch
from gradwatch import Kind
from gradwatch.diagnosis import Diagnosis
from tests.diagnosis.support import Keep, alarms, course, falling, found, observed
from tests.distributed.patience import until_written

rng = np.random.default_rng(0)
FLAT = 2.0
ROUNDED, RULED = "updates-rounded-away", "epsilon-dominated"
LAGGING = "second-moment-lagging"


def bfloat16(x: Any) -> Any:
    """Rounded to bfloat16, in float32."""
    return torch.tensor(x, dtype=torch.float32).bfloat16().float().numpy()


WEIGHTS = rng.normal(size=(20, 10))
GRADIENTS = rng.normal(size=(20, 10))


def rounding(share: float, weights: Any = None) -> Any:
    """Steps in which a share of the elements does not change."""
    weights = bfloat16(WEIGHTS) if weights is None else weights

    def arrays(step: int) -> Any:
        changes = np.full(200, 0.01)
        changes[: int(share * 200)] = 0.0
        return {
            (Kind.WEIGHT, "net/a/kernel"): weights,
            (Kind.GRADIENT, "net/a/kernel"): GRADIENTS,
            (Kind.UPDATE, "net/a/kernel"): changes,
        }

    return arrays


def test_bfloat16_weights_that_do_not_change_are_found_within_fifteen_steps() -> None:
    finding = found(observed(course(20, rounding(0.95), FLAT), rules=[ROUNDED]), ROUNDED)
    assert finding.detected == 15
    assert finding.evidence["share unchanged"] == pytest.approx(0.95)


@pytest.mark.parametrize(
    ("arrays", "losses"),
    [
        (rounding(0.8), FLAT),  # Most change.
        (rounding(0.95, WEIGHTS.astype(np.float32)), FLAT),  # Not in low precision.
        (rounding(0.95), falling(40)),  # It learns: rounded at random, perhaps.
        (rounding(1.0), FLAT),  # Nothing moves at all: a rate of 0, or frozen.
        (rounding(0.95, np.ones((20, 10))), FLAT),  # Ones have few digits in any precision.
    ],
)
def test_other_weights_are_not_rounded_away(arrays: Any, losses: Any) -> None:
    assert alarms(observed(course(40, arrays, losses), rules=[ROUNDED])) == []


def test_elements_without_a_gradient_are_not_rounded_away() -> None:
    sparse = GRADIENTS.copy()
    sparse.ravel()[:190] = 0.0

    def arrays(step: int) -> Any:
        return rounding(0.95)(step) | {(Kind.GRADIENT, "net/a/kernel"): sparse}

    assert alarms(observed(course(40, arrays, FLAT), rules=[ROUNDED])) == []


def network() -> Any:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4)]
    return torch.nn.Sequential(*layers)


@pytest.mark.parametrize("in_float32", [False, True])
def test_a_frozen_bfloat16_training_is_found_and_its_float32_twin_is_not(
    tmp_path: Any, in_float32: bool
) -> None:
    model = network() if in_float32 else network().bfloat16()
    dtype = torch.bfloat16
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    keep = Keep()
    findings: list[Any] = []
    monitor = gradwatch.watch(
        model,
        optimizer,
        tmp_path,
        every=1,
        sinks=[keep],
        watch=[gradwatch.gradients(), gradwatch.updates()],
        diagnose=[ROUNDED],
        on_finding=findings.append,
    )
    x = torch.randn(64, 16)
    y = torch.randint(4, (64,))
    for _ in range(20):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype, enabled=in_float32):
            outputs = model(x if in_float32 else x.to(dtype))
        loss = torch.nn.functional.cross_entropy(outputs.float(), y)
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss)
    monitor.close()
    rules = [finding.rule for finding in findings]
    assert rules == ([] if in_float32 else [ROUNDED])


def ruled(share: float, gradient: float = 1e-9) -> Any:
    flags = (np.arange(100) < 100 * share).astype(float)
    return {
        (Kind.EPSILON_RULED, "net/a/kernel"): flags.reshape(10, 10),
        (Kind.GRADIENT, "net/a/kernel"): np.full((10, 10), gradient),
    }


def test_epsilon_that_rules_nearly_all_steps_is_found() -> None:
    finding = found(observed(course(20, lambda step: ruled(0.95), FLAT), rules=[RULED]), RULED)
    assert finding.detected == 15
    assert finding.evidence["share of elements"] == pytest.approx(0.95)


@pytest.mark.parametrize(
    ("arrays", "losses"),
    [(ruled(0.8), FLAT), (ruled(0.95), falling(20)), (ruled(1.0, 0.0), FLAT)],
)
def test_epsilon_may_rule_some_steps(arrays: Any, losses: Any) -> None:
    assert observed(course(20, lambda step: arrays, losses), rules=[RULED]).findings == []


def lagging(
    at: int, size: float = 8.0, growth: float = 3.0, elements: int = 256, usual: float = 1.0
) -> Any:
    """From a step on, gradients / roots of the second moment, and updates, grow for five steps."""
    noise = rng.normal(size=elements)
    noise /= np.sqrt(np.mean(noise**2))

    def arrays(step: int) -> Any:
        is_late = at <= step < at + 5
        level = usual * (1.0 + 0.1 * np.sin(step))
        return {
            (Kind.NORMALIZED_GRADIENT, "net/a/kernel"): noise * (size if is_late else level),
            (Kind.UPDATE, "net/a/kernel"): noise * 1e-3 * (growth if is_late else level),
        }

    return arrays


def test_a_second_moment_that_lags_is_found_in_the_step_in_which_it_begins() -> None:
    diagnosis = Diagnosis(rules=[LAGGING])
    diagnosis.is_paced = True  # Calm trainings are asked about more rarely: this one at once.
    for each in course(210, lagging(195), FLAT):
        diagnosis.observe(each)
    finding = found(diagnosis, LAGGING)
    assert (finding.since, finding.detected) == (195, 195)
    assert str(finding.severity) == "warning"
    assert finding.layer == "net/a"
    assert finding.evidence["rms of gradient / root of second moment"] == pytest.approx(8.0)
    assert finding.evidence["largest before"] == pytest.approx(1.1, rel=1e-3)
    assert finding.evidence["update, times the largest before"] == pytest.approx(3 / 1.1, rel=1e-3)


def test_the_spike_that_follows_is_explained() -> None:
    losses = [2.0 + 0.01 * np.sin(step) for step in range(1, 61)]
    losses[52:] = [9.0, 12.0, 14.0, 15.0, 15.0, 15.0, 15.0, 15.0]
    diagnosis = observed(course(60, lagging(50), losses), rules=[LAGGING, "loss-spike"])
    assert found(diagnosis, LAGGING).detected == 50
    assert found(diagnosis, "loss-spike").explained_by == LAGGING


@pytest.mark.parametrize(
    "arrays",
    [
        lagging(50, size=2.9),
        lagging(50, size=4.0, usual=2.5),  # As large as ever, or nearly.
        lagging(50, growth=1.2),  # Steps do not grow: something limits them.
        lagging(50, elements=8),
        lagging(20),  # Too early to know what is usual.
    ],
)
def test_other_second_moments_are_left_alone(arrays: Any) -> None:
    assert observed(course(80, arrays, FLAT), rules=[LAGGING]).findings == []


def test_an_odd_batch_is_no_lag() -> None:
    losses = [2.0 + 0.01 * np.sin(step) for step in range(1, 81)]
    losses[49:54] = [40.0] * 5
    assert observed(course(80, lagging(50), losses), rules=[LAGGING]).findings == []


def test_without_updates_the_gradients_alone_are_judged() -> None:
    def arrays(step: int) -> Any:
        given = lagging(50)(step)
        return {site: x for site, x in given.items() if site[0] is not Kind.UPDATE}

    assert found(observed(course(60, arrays, FLAT), rules=[LAGGING]), LAGGING).detected == 50


@pytest.mark.parametrize("quick", [False, True])
def test_inputs_that_begin_late_are_found_before_the_loss_spikes(
    tmp_path: Any, quick: bool
) -> None:
    torch.manual_seed(0)
    model = network()
    with torch.no_grad():
        model[0].weight[:, 8:] = 0.0  # Of what has not begun.
    beta = 0.95 if quick else 0.999
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, betas=(0.9, beta))
    findings: list[Any] = []
    monitor = gradwatch.watch(
        model,
        optimizer,
        tmp_path,
        every=1,
        sinks=[Keep()],
        watch=[gradwatch.gradients(), gradwatch.optimizer_state()],
        diagnose=[LAGGING],
        on_finding=findings.append,
    )
    begin, losses = 90, []
    for step in range(1, begin + 12):
        x = torch.randn(32, 16)
        y = x[:, :4].argmax(1)
        x[:, 8:] = (10.0 + x[:, 8:]) * (step >= begin)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        monitor.record(loss=loss)
        if step % 16 == 0:  # Of steps as quick as these, some would be dropped.
            until_written(monitor)
    monitor.close()
    assert losses[begin - 1] < max(losses[40 : begin - 1])
    assert [finding.detected for finding in findings] == ([] if quick else [begin])
    if not quick:
        assert max(losses[begin:]) > 2 * max(losses[40 : begin - 1])
