"""Weights that something other than the optimizer sets, or that come to rest, and what follows."""

from __future__ import annotations

import numpy as np
import pytest

from gradwatch import Kind
from gradwatch.diagnosis import Diagnosis

from .support import alarms, facts_of, found, observed, reading

G, W, U = Kind.GRADIENT, Kind.WEIGHT, Kind.UPDATE
LAYERS = ("embed", "cell", "head")
RNG = np.random.default_rng(2)
NOISE = np.random.default_rng(7).standard_normal(200)


def step_of(step: int, sizes: dict[str, float], loss: float, update: float = 1e-3):
    arrays = {}
    for name in LAYERS:
        size = sizes.get(name, 1.0) * (1.0 + 1e-4 * step)
        arrays[W, f"net/{name}/kernel"] = size * np.array([1.0, -0.5, 0.7, -1.2])
        arrays[G, f"net/{name}/kernel"] = 0.1 * RNG.standard_normal(4)
        arrays[U, f"net/{name}/kernel"] = update * RNG.standard_normal(4)
    return reading(step, arrays, loss)


def ended(changed: dict[str, float], height: float, last: int, noise: float = 0.05) -> Diagnosis:
    """A training of 120 steps: all are measured until the weights change in step 116 at `last`."""
    diagnosis = observed([])
    for step in range(1, last + 1):
        is_late = step >= 116
        loss = 2.0 * np.exp(-step / 20) + 0.3 + noise * NOISE[step] + height * is_late
        diagnosis.observe(step_of(step, changed if is_late else {}, float(loss)))
    diagnosis.observe_end()
    return diagnosis


@pytest.mark.parametrize("last", [117, 120])
def test_a_jump_right_before_the_end_is_an_alarm_if_weights_became_others(last):
    finding = found(ended({"embed": 0.0}, 1.5, last), "loss-spike")
    assert (finding.layer, finding.severity, finding.since) == ("net/embed", "warning", 116)


def test_a_jump_right_before_the_end_may_be_one_of_the_batch():
    assert alarms(ended({}, 1.5, 117)) == []


def test_a_rise_within_the_noise_is_told_by_the_weights_that_became_others():
    diagnosis = ended({"cell": 40.0}, 0.9, 120, noise=0.25)
    finding = found(diagnosis, "loss-spike")
    assert finding.layer == "net/cell"
    assert "by no update" in finding.title
    assert alarms(ended({}, 0.9, 120, noise=0.25)) == []
    assert alarms(ended({"cell": 40.0}, 0.0, 120, noise=0.25)) == []


@pytest.mark.parametrize(("measured", "detected"), [(60, 60), (62, 62), (70, 64)])
def test_a_spike_waits_for_the_weights_that_tell_where_it_began(measured, detected):
    diagnosis = observed([])
    for step in range(1, 90):
        loss = 1.0 + 0.01 * NOISE[step] + 30.0 * (step >= 60)
        if step < 60 or step == measured:
            diagnosis.observe(step_of(step, {"head": 30.0} if step >= 60 else {}, loss))
        else:
            diagnosis.observe_losses([(step, loss)])
    finding = found(diagnosis, "loss-spike")
    assert (finding.since, finding.detected) == (60, detected)
    assert finding.layer == "net/head"


LINEAR = facts_of(
    [(f"net/{name}", "Dense", None, 2) for name in LAYERS], "binary_crossentropy", from_logits=True
)


def rested(update: float, rate: float, loss: float, scale: float = 1.0) -> list[str]:
    """The alarms of a training whose updates become `update` in step 31."""
    diagnosis = observed([], LINEAR)
    for step in range(1, 121):
        late = step > 30
        one = step_of(step, {}, loss + 0.01 * NOISE[step], update if late else 1e-2)
        arrays = {
            (Kind.SCALAR, "constant_loss"): [0.6931 + 1e-6 * step],
            (Kind.SCALAR, "learning_rate"): [rate if late else 0.1],
        }
        extra = reading(step, arrays)
        rows = np.concatenate([one.summary.pack(), extra.summary.pack()])
        whole = type(one)(step, 1, 0.0, [*one.sites, *extra.sites], type(one.summary).unpack(rows))
        diagnosis.observe(whole)
    return [f.title for f in diagnosis.findings if f.rule == "stalled-weights"]


def test_weights_that_come_to_rest_at_the_same_rate_are_said():
    assert rested(1e-9, 0.1, 0.55) == [
        "The weights hardly change since step 31, although there are gradients."
    ]
    # A schedule has ended; much is learned already; they still move.
    assert rested(1e-9, 1e-6, 0.55) == []
    assert rested(1e-9, 0.1, 0.1) == []
    assert rested(1e-4, 0.1, 0.55) == []
