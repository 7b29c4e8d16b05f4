"""The default rules of SageMaker Debugger, at every step, each once a run.

What is decided in their favour where the definition leaves it open: an update is compared with the
weights after it (a bias that starts at 0 would else always be an alarm); `UnchangedTensor`
looks at trained weights only. `SaturatedActivation` and `PoorWeightInitialization` need
the elements before activations and are left out, as are the rules on metrics, images and trees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Kind, Site, l2, linf

from ..alarms import Alarm
from ..trace import Trace

Found = tuple[int, str]
"""A position in the measured steps, and a layer."""


def sagemaker(trace: Trace) -> list[Alarm]:
    """What the rules say of a run."""
    made = []
    with np.errstate(all="ignore"):
        for name, (rule, names) in _RULES.items():
            found = rule(trace)
            if found is not None:
                made.append(Alarm(name, names, found[0], found[1]))
    return made


def _first(trace: Trace, kind: Kind, paths: list[str], bad: NDArray[np.bool_]) -> Found | None:
    steps, sites = np.nonzero(bad)
    if not steps.size:
        return None
    return int(trace.steps[steps[0]]), Site(kind, paths[sites[0]]).layer


def _vanishing_gradient(trace: Trace) -> Found | None:
    paths, s = trace.values(Kind.GRADIENT)
    return _first(trace, Kind.GRADIENT, paths, s.sum_abs / s.count < 1e-7)


def _exploding_tensor(trace: Trace) -> Found | None:
    found = []
    for kind in (Kind.OUTPUT, Kind.GRADIENT, Kind.WEIGHT):
        paths, s = trace.values(kind)
        found.append(_first(trace, kind, paths, s.nan + s.posinf + s.neginf > 0))
    return min((each for each in found if each), default=None, key=lambda each: each[0])


def _dead_relu(trace: Trace) -> Found | None:
    relu = {"relu", "relu6"}
    active = {e["path"] for e in trace.facts["layers"] if e["activation"] in relu}
    paths, s = trace.values(Kind.DEAD_UNIT)
    is_relu = np.array([Site(Kind.DEAD_UNIT, path).layer in active for path in paths], bool)
    return _first(trace, Kind.DEAD_UNIT, paths, (s.sum / s.count > 0.5) & is_relu)


def _ratios(trace: Trace) -> tuple[list[str], NDArray[np.float64]]:
    paths, updates = trace.values(Kind.UPDATE)
    known, weights = trace.values(Kind.WEIGHT)
    places = [known.index(path) for path in paths]
    return paths, l2(updates) / (l2(weights)[:, places] + 1e-9)


def _weight_update_ratio(trace: Trace) -> Found | None:
    paths, ratios = _ratios(trace)
    return _first(trace, Kind.UPDATE, paths, (ratios > 10) | (ratios < 1e-8))


def _all_zero(trace: Trace) -> Found | None:
    found = []
    for kind in (Kind.OUTPUT, Kind.GRADIENT, Kind.WEIGHT):
        paths, s = trace.values(kind)
        found.append(_first(trace, kind, paths, (s.zeros == s.count) & (s.count > 0)))
    return min((each for each in found if each), default=None, key=lambda each: each[0])


def _unchanged_tensor(trace: Trace) -> Found | None:
    paths, updates = trace.values(Kind.UPDATE)
    known, weights = trace.values(Kind.WEIGHT)
    places = [known.index(path) for path in paths]
    same = linf(updates) <= 1e-8 + 1e-5 * linf(weights)[:, places]
    running = same[2:] & same[1:-1] & same[:-2]
    return _first(trace, Kind.UPDATE, paths, np.concatenate([np.zeros_like(same[:2]), running]))


def _loss_not_decreasing(trace: Trace) -> Found | None:
    losses = trace.losses[::10]
    bad = np.flatnonzero(~(losses[1:] <= losses[:-1] - 1e-3 * np.abs(losses[:-1])))
    return (int(bad[0] + 1) * 10 + 1, "") if bad.size else None


def _overfit(trace: Trace) -> Found | None:
    for epoch in _validated(trace):
        if epoch["val_loss"] - epoch["loss"] > 0.1 * epoch["loss"]:
            return int(epoch["step"]), ""
    return None


def _overtraining(trace: Trace) -> Found | None:
    best, since = np.inf, 0
    for epoch in _validated(trace):
        since = 0 if epoch["val_loss"] < best - 0.01 else since + 1
        best = min(best, epoch["val_loss"])
        if since >= 10:
            return int(epoch["step"]), ""
    return None


def _validated(trace: Trace) -> Iterator[dict[str, float]]:
    return (epoch for epoch in trace.epochs if np.isfinite(epoch["val_loss"]))


_STILL = ("stalled-weights", "learning-rate-too-low")
_RULES: dict[str, tuple[Callable[[Trace], Found | None], tuple[str, ...]]] = {
    "VanishingGradient": (
        _vanishing_gradient, ("vanishing-gradients", "zero-gradients", "underflow")),
    "ExplodingTensor": (_exploding_tensor, ("non-finite", "exploding-gradients")),
    "DeadRelu": (_dead_relu, ("dead-units",)),
    "WeightUpdateRatio": (_weight_update_ratio, ("learning-rate-too-high", *_STILL, "imbalance")),
    "AllZero": (_all_zero, ("zero-gradients", "dead-units", "constant-output", "underflow")),
    "UnchangedTensor": (_unchanged_tensor, _STILL),
    "LossNotDecreasing": (
        _loss_not_decreasing, ("loss-not-falling", "loss-oscillating", "loss-diverging")),
    "Overfit": (_overfit, ("overfitting",)),
    "Overtraining": (_overtraining, ("overfitting",)),
}  # fmt: skip
