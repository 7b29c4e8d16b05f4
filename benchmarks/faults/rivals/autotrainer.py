"""AutoTrainer's default rules on gradients.

They look at an epoch's end, from 30 % of the epochs on, and only at a training whose accuracy is
below 0.6. A trace has no accuracy of each epoch, so the score that the run ends with is taken: the
tool is told the outcome. Its two rules on the course of the accuracy are left out.
"""

from __future__ import annotations

import numpy as np

from gradwatch.core import Kind, Site, l2

from ..alarms import Alarm
from ..trace import Trace

START = 0.3
ACCURACY = 0.6


def autotrainer(trace: Trace) -> list[Alarm]:
    """What the rules say of a run; as the tool does, only the first of them."""
    paths, s = trace.values(Kind.GRADIENT)
    kernels = [i for i, p in enumerate(paths) if p.endswith(("kernel", "embeddings"))]
    for number, epoch in enumerate(trace.epochs, 1):
        here = np.flatnonzero(trace.steps == epoch["step"])
        if not here.size or not kernels:
            continue
        now = s[int(here[0])]
        step, known = int(epoch["step"]), [epoch["loss"], epoch["val_loss"]]
        if np.any(now.nan + now.posinf + now.neginf > 0) or not np.isfinite(known).all():
            return [Alarm("explode", ("non-finite", "exploding-gradients"), step)]
        if number < START * len(trace.epochs) or trace.label["score"] >= ACCURACY:
            continue
        norms = l2(now)[kernels]
        ratio = norms[0] / norms[-1] if norms[-1] > 0 else np.nan
        first = Site(Kind.GRADIENT, paths[kernels[0]]).layer
        if np.sum(now.zeros) >= 0.7 * np.sum(now.count):
            return [Alarm("relu", ("dead-units", "zero-gradients"), step)]
        if ratio > 70:
            return [Alarm("explode", ("exploding-gradients", "imbalance"), step, first)]
        if ratio < 1e-3 and norms[0] < 1e-4:
            return [Alarm("vanish", ("vanishing-gradients", "zero-gradients"), step, first)]
    return []
