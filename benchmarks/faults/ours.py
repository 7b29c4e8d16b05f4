"""gradwatch's own diagnosis of a trace, fed step by step as it is in `fit`."""

from __future__ import annotations

import numpy as np

from gradwatch.diagnosis import Diagnosis, Finding, ModelFacts, Severity

from .alarms import Alarm
from .trace import Trace


def diagnose(trace: Trace) -> list[Alarm]:
    """All that a user is told during the run, at the step at which it is said.

    What later turns out to be explained by something else has been said nevertheless, and
    counts; what is only worth knowing does not.
    """
    diagnosis = Diagnosis(ModelFacts.from_json(trace.facts), on_error=print)
    alarms: dict[tuple[str, str], Alarm] = {}

    def hear(findings: list[Finding], step: int) -> None:
        for each in findings:
            if each.severity is not Severity.INFO:
                where = each.layer or (each.sites[0].path if each.sites else "")
                said = Alarm(each.rule, (each.rule,), step, where)
                alarms.setdefault((each.rule, each.layer), said)

    ends = {int(epoch["step"]): (i, epoch) for i, epoch in enumerate(trace.epochs, 1)}
    for reading in trace.readings:
        step = reading.step
        diagnosis.observe_number("learning_rate", step, float(trace.rates[step - 1]))
        if np.isfinite(trace.scales[step - 1]):
            diagnosis.observe_number("loss_scale", step, float(trace.scales[step - 1]))
        hear(diagnosis.observe(reading), step)
        if step in ends and not reading.group:
            number, epoch = ends[step]
            logs = {name: epoch[name] for name in ("loss", "val_loss")}
            hear(diagnosis.observe_epoch(number, step, logs), step)
    return list(alarms.values())
