"""Rules about what the optimizer makes of gradients: in made-up courses and in real trainings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import gradwatch
from gradwatch import Kind
from tests.diagnosis.support import Keep, alarms, course, falling, found, observed

rng = np.random.default_rng(0)
FLAT = 2.0
ROUNDED, RULED = "updates-rounded-away", "epsilon-dominated"


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
