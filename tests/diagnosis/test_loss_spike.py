"""Spikes of the loss: found at their step, told apart by what comes after, and not in noise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gradwatch import Kind
from gradwatch.diagnosis import Diagnosis
from tests.diagnosis.support import course, found, observed

STEPS = np.arange(1, 301)
AT = 150


def healthy(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return 2.3 * np.exp(-STEPS / 60) + 0.3 + 0.05 * rng.standard_normal(STEPS.size)


def diagnosed(losses, *others: str) -> Diagnosis:
    diagnosis = Diagnosis(rules=["loss-spike", *others])
    for step, loss in zip(STEPS, losses, strict=True):
        diagnosis.observe_losses([(int(step), float(loss))])
    return diagnosis


since = STEPS - AT
SHAPES = {
    "one high batch": (30.0 * (since == 0), "warning", 1),
    "one odd batch": (2.0 * (since == 0), "info", 1),
    "slow recovery": (2.0 * (since >= 0) * np.exp(-np.maximum(since, 0) / 6), "info", None),
    "new task": (16.0 * (since >= 0) * np.exp(-np.maximum(since, 0) / 3), "info", None),
    "very high": (60.0 * (since >= 0) * np.exp(-np.maximum(since, 0) / 3), "error", None),
    "two steps": (20.0 * ((since == 0) | (since == 1)), "warning", 2),
    "on its way back": (4.0 * (since >= 0) * np.exp(-np.maximum(since, 0) / 12), "info", None),
    "growing": (2.0 * (since >= 0) * 1.5 ** np.clip(since, 0, 12), "error", None),
    "lasting": (3.5 * (since >= 0), "error", None),
    "lasting below the start": (1.5 * (since >= 0), "info", None),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", SHAPES)
def test_a_spike_is_found_at_its_step(shape, seed):
    added, severity, steps = SHAPES[shape]
    finding = found(diagnosed(healthy(seed) + added), "loss-spike")
    assert (finding.since, finding.detected, finding.severity) == (AT, AT, severity)
    assert finding.evidence["loss before"] == pytest.approx(0.49, abs=0.1)
    if steps is not None:
        assert finding.evidence["steps until it was back"] == steps
        assert finding.until == AT + steps - 1
    if "lasting" in shape or shape == "growing":
        assert finding.title.endswith("and does not come back.")


def test_the_height_of_a_spike_of_a_signed_loss_is_relative_to_its_fall():
    losses = 0.6 * np.exp(-STEPS / 30) - 1.0 + 0.02 * np.random.default_rng(0).normal(size=300)
    # Near 0 at the start; the same loss above 0 has jumped to 3 times its initial level.
    losses[AT - 1 :] += 2.0 * np.exp(-np.arange(300 - AT + 1) / 3)
    for offset in (0.4, 1.4):
        assert found(diagnosed(losses + offset), "loss-spike").severity == "info"


def test_a_spike_from_which_the_loss_has_not_come_back_at_the_end_is_a_warning():
    diagnosis = diagnosed(healthy() + SHAPES["lasting below the start"][0])
    assert found(diagnosis, "loss-spike").severity == "info"
    diagnosis.observe_end()
    assert found(diagnosis, "loss-spike").severity == "warning"


@pytest.mark.parametrize("seed", range(20))
def test_losses_of_single_samples_do_not_spike(seed):
    rng = np.random.default_rng(seed)
    losses = healthy(seed) * rng.chisquare(1, STEPS.size)
    assert diagnosed(losses).findings == []


def test_a_schedule_that_restarts_does_not_spike():
    diagnosis = Diagnosis(rules=["loss-spike"])
    rng = np.random.default_rng(0)
    for step in range(1, 401):
        rate = 0.5 * (1 + math.cos(math.pi * (step % 100) / 100))
        diagnosis.observe_number("learning_rate", step, rate)
        loss = 0.3 + 1.5 * math.exp(-(step % 100) / 15) * 0.8 ** (step // 100)
        diagnosis.observe_losses([(step, loss + 0.01 * rng.standard_normal())])
    assert diagnosis.findings == []


def test_a_spike_explains_that_the_loss_diverges():
    added, _, _ = SHAPES["growing"]
    diagnosis = diagnosed(healthy() + added, "loss-diverging")
    assert found(diagnosis, "loss-diverging").explained_by == "loss-spike"
    assert [finding.rule for finding in diagnosis.alarms] == ["loss-spike"]


def arrays(step: int, **odd: float):
    """A network of two layers; each argument multiplies something in the step of the spike."""
    rng = np.random.default_rng(step)
    factors = {name: odd.get(name, 1.0) if step == AT else 1.0 for name in ("x", "y", "a", "b")}
    # What is wrong with weights stays.
    weights = odd.get("weights", 1.0) if step >= AT else 1.0
    return {
        (Kind.INPUT, "input"): factors["x"] * rng.standard_normal(64),
        (Kind.TARGET, "target"): factors["y"] * rng.standard_normal(64),
        (Kind.WEIGHT, "a/kernel"): np.full(8, 0.5),
        (Kind.WEIGHT, "b/kernel"): np.full(8, 0.5 * weights),
        (Kind.OUTPUT, "a"): factors["x"] * rng.standard_normal(64),
        (Kind.OUTPUT, "b"): factors["x"] * weights * rng.standard_normal(64),
        (Kind.GRADIENT, "a/kernel"): factors["a"] * rng.standard_normal(64),
        (Kind.GRADIENT, "b/kernel"): factors["b"] * factors["y"] * rng.standard_normal(64),
    }


@pytest.mark.parametrize(
    ("odd", "layer", "says"),
    [
        ({"x": 100.0}, "a", "largest magnitude of input"),
        ({"y": 100.0}, "b", "largest magnitude of target"),
        ({"weights": 100.0}, "b", "weights of b"),
        ({"a": 30.0, "b": 10.0}, "a", "gradient of a"),
    ],
)
def test_what_moved_first_is_named(odd, layer, says):
    losses = [float(x) for x in healthy() + SHAPES["one high batch"][0]]
    readings = course(STEPS.size, lambda step: arrays(step, **odd), losses)
    finding = found(observed(readings, rules=["loss-spike"]), "loss-spike")
    assert finding.layer == layer
    assert finding.evidence[says] > 3 * finding.evidence[f"usual {says}"]


@pytest.mark.parametrize(("update", "layer"), [(1e-3, "b"), (1.0, "")])
def test_weights_that_are_initialized_anew_are_named_although_their_norm_stays(update, layer):
    def values(step):
        other = np.zeros(8)
        other[0] = np.sqrt(8.0) * 0.5
        return {
            (Kind.WEIGHT, "a/kernel"): np.full(8, 0.5),
            (Kind.WEIGHT, "b/kernel"): np.full(8, 0.5) if step < AT else other,
            (Kind.UPDATE, "a/kernel"): np.full(8, update),
            (Kind.UPDATE, "b/kernel"): np.full(8, update),
        }

    losses = [float(x) for x in healthy() + SHAPES["lasting"][0]]
    readings = course(STEPS.size, values, losses)
    finding = found(observed(readings, rules=["loss-spike"]), "loss-spike")
    assert finding.layer == layer


def test_of_an_unmeasured_spike_the_steps_after_it_tell():
    losses = healthy() + SHAPES["lasting"][0]
    diagnosis = Diagnosis(rules=["loss-spike"])
    readings = course(
        STEPS.size, lambda step: arrays(step, weights=100.0), list(map(float, losses))
    )
    for each in readings:
        if (each.step % 10 == 0 and each.step != AT) or AT + 3 < each.step < AT + 10:
            diagnosis.observe(each)
        else:
            diagnosis.observe_losses([(each.step, float(losses[each.step - 1]))])
    assert found(diagnosis, "loss-spike").layer == "b"
