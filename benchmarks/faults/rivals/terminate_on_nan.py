"""Keras's callback: it stops the training when the loss is not finite."""

from __future__ import annotations

import numpy as np

from ..alarms import Alarm
from ..trace import Trace


def terminate_on_nan(trace: Trace) -> list[Alarm]:
    """What the callback says of a run."""
    bad = np.flatnonzero(~np.isfinite(trace.losses))
    return [Alarm("TerminateOnNaN", ("non-finite",), int(bad[0]) + 1)] if bad.size else []
