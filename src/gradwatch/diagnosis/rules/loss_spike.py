"""A loss that jumps, with or without coming back."""

import math

import numpy as np

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.finding import Severity, Symptom, Symptoms
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.losses import median
from gradwatch.diagnosis.rule import Limits, Threshold, rule
from gradwatch.diagnosis.spike_evidence import overwritten, rate_rise, what_moved
from gradwatch.diagnosis.spikes import Spike
from gradwatch.util import counted

_MOST = 8
"""Spikes of a run that are told; the first ones."""
_OUTLIER = 5.0
"""Times the median loss of the batch: one sample rather than the batch."""
_WAIT = 3
"""Steps within which a measurement may tell which layer moved."""
_AFTER = 25
"""Steps after a spike in which what is measured may tell more about it."""


@rule(
    "loss-spike",
    remedy=(
        "Look at the batch of this step: a wrong label, an outlier, a value that is not scaled. "
        "Clip gradients by their norm, and lower the learning rate if it happens again."
    ),
    thresholds={
        "rarity": Threshold(1.5, "times the largest deviation so far; noise has had others"),
        "deviations": Threshold(12.0, "to be a warning, although the loss comes back"),
        "rarity of a warning": Threshold(5.0, "times the largest deviation so far; the same"),
        "height": Threshold(5.0, "times the initial loss; the same"),
        "height at once": Threshold(20.0, "times it, before it is known whether the loss falls"),
        "losses": Threshold(5, "without coming back, to be more than an odd batch"),
        "losses to come back": Threshold(10, "that show whether it falls"),
        "height without return": Threshold(1.5, "times the initial loss: worse than untrained"),
        "height at the end": Threshold(0.3, "of the jump: it was not repaired"),
        "height of an error": Threshold(3.0, "times the initial loss, without coming back"),
        "losses of other weights": Threshold(3, "that are all high, since weights became others"),
    },
)
def loss_spike(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """The loss of a step is far above the course of those before it."""
    spikes = history.losses.spikes.kept
    for spike in spikes[:_MOST]:
        if spike.jump.rarity < limits["rarity"] or not _is_current(history, spike):
            continue
        if _awaits_weights(history, spike):
            continue
        rise = rate_rise(history, spike)
        severity = _severity(history, spike, bool(rise), limits)
        if facts.loss.is_through_others:
            severity = Severity.INFO  # An adversary may make it rise.
        if severity is Severity.INFO and rise:
            continue  # A schedule that restarts.
        if severity is Severity.INFO and _is_the_end(history, spike):
            severity = Severity.WARNING
        layer, sites, moved = what_moved(history, facts, spike)
        yield Symptom(
            title=_title(spike),
            evidence={
                "loss before": spike.jump.level,
                "highest loss": spike.peak,
                "standard deviations": spike.jump.deviations,
                **_return(spike),
                **rise,
                **moved,
            },
            sites=sites,
            layer=layer,
            since=spike.step,
            until=None if spike.recovered is None else spike.recovered - 1,
            severity=severity,
            about=f"{spike.step}",
        )
    yield from _other_weights(history, facts, limits)


def _is_the_end(history: History, spike: Spike) -> bool:
    """Whether weights have become others by no update, and training ends with a high loss."""
    is_open = spike.end is None and len(spike.losses) > 1
    return history.has_ended and is_open and overwritten(history, spike.step)[0] != ""


def _awaits_weights(history: History, spike: Spike) -> bool:
    """Whether the weights after the jump, which tell where to look, are about to be measured."""
    if Kind.WEIGHT not in history or history.has_ended:
        return False
    return history[Kind.WEIGHT].latest_step < spike.step >= history.step - _WAIT


def _other_weights(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """Weights that no update has changed so, after which the loss is above all that it was.

    Such a jump may be within what noise has done before, or be the last that is seen.
    """
    count, losses = int(limits["losses of other weights"]), history.losses
    if not history.has_ended or facts.loss.is_through_others or len(losses) < 2 * _AFTER:
        return
    newest, steps = losses.last(2 * _AFTER), losses.steps[-2 * _AFTER :]
    first = int(np.flatnonzero(newest <= newest[:_AFTER].max())[-1]) + 1
    if not count <= newest.size - first < _AFTER or not losses.has_single:
        return
    step = int(steps[first])
    if any(abs(spike.step - step) <= count for spike in losses.spikes.kept):
        return  # It says so itself.
    layer, sites = overwritten(history, step)
    if layer:
        yield Symptom(
            title=f"The weights of {layer} have become others in step {step:,} or shortly before, "
            f"by no update, and the loss has risen to {newest[-1]:.3g}.",
            evidence={"loss before": median(newest[:first]), "loss": float(newest[-1])},
            sites=sites,
            layer=layer,
            since=step,
            severity=Severity.WARNING,
            remedy="Look for what sets weights at this step: a checkpoint that is loaded, a layer "
            "that is made anew, pruning, an average of weights.",
            about="other weights",
        )


def _is_current(history: History, spike: Spike) -> bool:
    """Whether it goes on, or may become clearer."""
    if spike.end is None or history.step <= spike.end + _AFTER:
        return True
    middle = (spike.jump.level + spike.peak) / 2
    return spike.is_lasting and history.losses.recent > middle


def _title(spike: Spike) -> str:
    text = f"The loss jumps from {spike.jump.level:.3g} to {spike.loss:.3g} in step {spike.step:,}"
    if spike.samples and spike.samples[0].loss > _OUTLIER * max(spike.sample_median, 0.0):
        worst = spike.samples[0]
        text += f", by {worst} (loss {worst.loss:.3g}; median {spike.sample_median:.3g})"
    if spike.recovered is not None:
        steps = spike.recovered - spike.step
        return f"{text}, and is back after {counted(steps, 'step')}."
    return f"{text}, and does not come back." if spike.is_lasting else f"{text}."


def _return(spike: Spike) -> dict[str, float]:
    if spike.recovered is not None:
        return {"steps until it was back": spike.recovered - spike.step}
    return {"losses since then": len(spike.losses)}


def _severity(history: History, spike: Spike, is_explained: bool, limits: Limits) -> Severity:
    """A spike matters if it is beyond anything that batches do, or if it stays."""
    start = history.losses.initial

    def is_over(loss: float, height: float) -> bool:
        # A loss may be negative, and its initial level near 0: then what it has fallen by counts.
        scale = max(abs(start), start - spike.jump.level, 1e-3 * abs(spike.peak))
        return loss > start + (height - 1.0) * scale

    if not math.isfinite(start):
        return Severity.INFO
    if len(spike.losses) >= limits["losses"] and spike.recovered is None:
        latest = np.array(spike.losses[-int(limits["losses"]) :])
        if is_over(float(latest.min()), limits["height of an error"]):
            return Severity.ERROR
        is_high = is_over(median(latest), limits["height without return"])
        # A loss that is on its way back may be meant: a new head, a new task.
        is_waiting = len(spike.losses) < limits["losses to come back"] or _is_falling(spike)
        if is_high and (spike.is_lasting or not is_waiting):
            return Severity.ERROR if spike.is_lasting else Severity.WARNING
        height = (median(latest) - spike.jump.level) / (spike.peak - spike.jump.level)
        if history.has_ended and height > limits["height at the end"]:
            return Severity.WARNING
    is_beyond_noise = (
        spike.jump.deviations >= limits["deviations"]
        and spike.jump.rarity >= limits["rarity of a warning"]
    )
    if not is_beyond_noise or not is_over(spike.peak, limits["height"]):
        return Severity.INFO
    # One that nothing explains may be a new task: then the loss falls again as it did before.
    has_returned = spike.recovered is not None and spike.is_back(spike.losses[-1], start)
    is_known = is_explained or has_returned or history.has_ended
    if is_known or is_over(spike.peak, limits["height at once"]):
        return Severity.WARNING
    is_waiting = len(spike.losses) < limits["losses to come back"] or _is_falling(spike)
    return Severity.INFO if is_waiting else Severity.WARNING


def _is_falling(spike: Spike) -> bool:
    """Whether the losses since the jump have come a tenth of the way back, and further lately."""
    heights = np.array(spike.losses) - spike.jump.level
    half = heights.size // 2
    return float(np.median(heights[-half:])) < 0.9 * float(np.median(heights[:half]))
