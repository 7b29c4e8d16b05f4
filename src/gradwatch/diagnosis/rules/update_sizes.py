"""Updates that are too large or too small for their weights, everywhere or in one layer."""

import numpy as np

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.finding import Severity, Symptom, Symptoms
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.judgement import judgement
from gradwatch.diagnosis.losses import median
from gradwatch.diagnosis.network_order import matrices
from gradwatch.diagnosis.quantities import is_growing, never_moved, typical_ratios, update_ratios
from gradwatch.diagnosis.rule import Limits, Threshold, rule
from gradwatch.diagnosis.spike_evidence import rate_rise
from gradwatch.diagnosis.value_table import Array, Mask

_TINY = 0.05
"""Of the usual size of weights: those take many steps to grow, each of them large for them."""


@rule(
    "learning-rate-too-high",
    remedy="Lower the learning rate by a factor of 10, warm it up, or clip gradients.",
    thresholds={
        "ratio": Threshold(0.1, "of update to weight; about 1e-3 is usual"),
        "measured steps": Threshold(
            3, "first steps may be large, with adaptive optimizers above all"
        ),
        "losses": Threshold(30, "before the loss is called flat"),
        "ratio at once": Threshold(0.3, "in two steps, after which the loss has jumped"),
        "jump": Threshold(2.0, "of the loss over its first value, in two consecutive steps"),
        "measured steps without a loss": Threshold(
            10, "of an adversary or a policy, whose loss says nothing"
        ),
        "size": Threshold(10.0, "RMS of weights that steps have made so large; below 1 is usual"),
    },
    needs=[Kind.UPDATE],
)
def learning_rate_too_high(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """Each step changes the weights by a large part of themselves, and the loss does not fall."""
    table = history[Kind.UPDATE]
    count = int(limits["measured steps"])
    is_certain = has_jumped = _has_jumped(history, limits["jump"])
    if has_jumped:
        typical = typical_ratios(history, facts)
        is_large = typical > limits["ratio at once"]
        is_too_high = is_large.sum() > 1
    elif (blown_up := _blown_up(history, facts, limits)).any():
        typical, is_large, is_too_high = typical_ratios(history, facts), blown_up, True
        is_certain = True
    elif _says_nothing(history, facts):
        typical = typical_ratios(history, facts)
        is_large = typical > limits["ratio"]
        is_large[:count] = False
        is_too_high = is_large.sum() >= limits["measured steps without a loss"]
    else:
        so_far = judgement(history, facts)
        # Of a few losses of odd batches, none can be called flat; even less if they seem to fall.
        least = limits["losses"] * (2 if so_far.fall > 0.05 else 1)
        if table.measured <= count or not so_far.is_flat or so_far.losses < least:
            return
        typical = _typical_beside_zeros(history, facts)
        # Any such row of steps counts: once units are dead or saturated, steps are small again.
        is_large = np.convolve(typical > limits["ratio"], np.ones(count), "valid") == count
        is_too_high = is_large.any()
    if not is_too_high or _follows_jump(history, int(table.steps[int(np.argmax(is_large))])):
        return
    yield Symptom(
        title="The learning rate is too high: each step changes the weights by "
        f"{np.nanmax(typical):.0%} of their size.",
        evidence={"largest update ratio": float(np.nanmax(typical)), **_course(history, facts)},
        since=int(table.steps[int(np.argmax(is_large))]),
        severity=Severity.ERROR if is_certain else None,
    )


@rule(
    "learning-rate-too-low",
    remedy="Raise the learning rate by a factor of 10, and again if that helps.",
    thresholds={
        "ratio": Threshold(1e-5, "of update to weight; about 1e-3 is usual"),
        "measured steps": Threshold(10, "a schedule may begin low"),
        "losses": Threshold(15, "before the loss is called flat"),
        "distance": Threshold(0.03, "of all steps together, relative to the weights"),
        "losses for a distance": Threshold(100, "before a distance is called short"),
        "decay": Threshold(1e-3, "of the largest learning rate; schedules end about there"),
        "decayed share": Threshold(0.3, "of all steps; schedules that fit the run end with it"),
    },
    needs=[Kind.UPDATE],
)
def learning_rate_too_low(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """Updates are tiny compared with the weights, though not 0, and the loss hardly falls.

    They are tiny by themselves, or all of them together do not lead far from the start.
    """
    table = history[Kind.UPDATE]
    count, steps = int(limits["measured steps"]), len(history.losses)
    if table.measured <= count or steps < limits["losses"]:
        return
    if decayed := list(_decayed(history, facts, limits)):
        yield from decayed
        return
    largest = limits["ratio"]
    if steps >= limits["losses for a distance"] and history.first_step == 1:
        largest = max(largest, limits["distance"] / history.step)
    so_far = judgement(history, facts)
    # Weights that never moved have learned nothing, however the noisy loss looks.
    is_flat = so_far.is_flat and not so_far.is_vague
    if so_far.has_learned or not (is_flat or never_moved(history, facts, limits["ratio"])):
        return
    ratios = typical_ratios(history, facts)
    is_small = (ratios < largest) & (ratios > 0)
    # During a warm-up, updates grow from step to step.
    if not is_small[-count:].all() or history.is_warming_up() or is_growing(ratios):
        return
    typical = ratios[-count:]
    small = int(np.argmin(is_small[::-1])) or is_small.size
    yield Symptom(
        title="The learning rate is too low: each step changes the weights by "
        f"{np.median(typical):.1e} of their size.",
        evidence={"update ratio": float(np.median(typical)), **_course(history, facts)},
        since=table.since(small),
    )


def _decayed(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """A learning rate that has long been next to nothing, before anything was learned."""
    known = history.numbers.get("learning_rate", [])
    if len(known) < 2:
        return
    most = max(rate for _, rate in known)
    place = max(i for i, (_, rate) in enumerate(known) if rate > limits["decay"] * most)
    if place + 1 == len(known):
        return
    since = known[place + 1][0]
    if history.step - since < max(limits["decayed share"] * history.step, 20):
        return
    so_far = judgement(history, facts)
    if so_far.has_learned or so_far.is_falling:
        return
    yield Symptom(
        title=f"The learning rate has decayed to nothing: from {most:.1e} to {known[-1][1]:.1e}, "
        "before the network has learned.",
        evidence={"largest learning rate": most, **_course(history, facts)},
        since=since,
        remedy="Let the schedule last as long as the training.",
        about="decayed",
    )


@rule(
    "imbalance",
    remedy=(
        "Bring the layers to one scale: initialize them alike, normalize between them, or give "
        "this layer its own, smaller learning rate."
    ),
    thresholds={
        "factor": Threshold(1000.0, "between one layer's update ratio and the median of all"),
        "ratio": Threshold(0.03, "of update to weight; a layer that hardly moves does not matter"),
        "measured steps": Threshold(5, "a layer that starts near 0 takes large steps at first"),
    },
    needs=[Kind.UPDATE],
)
def imbalance(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """One layer's updates relative to its weights dwarf all others, and the loss is flat."""
    table = history[Kind.UPDATE]
    count = int(limits["measured steps"])
    if table.measured <= count or not judgement(history, facts).is_flat:
        return
    # A quick test that is enough at most steps.
    if not np.nanmax(update_ratios(history, facts, 1)[0], initial=0.0) > limits["ratio"]:
        return
    ratios = update_ratios(history, facts, count)
    measured = np.all(ratios > 0, axis=0)
    if measured.sum() < 3:
        return
    typical = np.median(ratios[:, measured], axis=1, keepdims=True)
    least = np.maximum(limits.per_site("factor", table.sites) * typical, limits["ratio"])
    large = np.all(ratios > least, axis=0)
    if not large.any():
        return
    worst = int(np.nanargmax(np.where(large, ratios[-1], np.nan)))
    yield Symptom(
        title=f"The updates of {table.sites[worst].layer} dwarf those of all other layers.",
        evidence={
            "update ratio": float(ratios[-1, worst]),
            "median update ratio": float(typical[-1, 0]),
        },
        sites=table.sites_where(large),
        layer=table.sites[worst].layer,
        since=table.since(count),
    )


def _blown_up(history: History, facts: ModelFacts, limits: Limits) -> Mask:
    """The measured steps that have replaced most weights by far larger ones, whatever the loss."""
    table, weights = history[Kind.UPDATE], history[Kind.WEIGHT]
    chosen = matrices(weights, facts)
    none = np.zeros(len(table), bool)
    if table.has_forgotten or not chosen.any() or judgement(history, facts).has_learned:
        return none
    sizes = weights.latest("rms")[chosen]
    if not median(sizes[np.isfinite(sizes)]) > limits["size"]:
        return none
    return np.asarray(typical_ratios(history, facts) > limits["ratio at once"])


def _typical_beside_zeros(history: History, facts: ModelFacts) -> Array:
    """The typical ratios without matrices that started near 0, such as those of an adapter.

    Their first updates are all that they have.
    """
    table = history[Kind.UPDATE]
    started = table.cached_per_sites("started at 0", lambda: _started_at_zero(history, facts))
    if not started.any() or started[matrices(table, facts)].all():
        return typical_ratios(history, facts)
    ratios = np.where(started, np.nan, update_ratios(history, facts, len(table)))
    return np.array([median(row[~np.isnan(row)]) for row in ratios])


def _started_at_zero(history: History, facts: ModelFacts) -> Mask:
    """Of each site, whether its first update was all of its weight, or this was tiny even then.

    False if that is not known.
    """
    table, weights = history[Kind.UPDATE], history[Kind.WEIGHT]
    if table.has_forgotten or int(table.steps[0]) != 1:
        return np.zeros(len(table.sites), bool)
    was_zero = np.abs(update_ratios(history, facts, len(table))[0] - 1.0) < 1e-6
    if weights.has_forgotten or not len(weights) or int(weights.steps[0]) != 1:
        return np.asarray(was_zero)
    rms, counts = (weights.statistic(name, len(weights))[0] for name in ("rms", "count"))
    # About as large as those of a square matrix are initialized.
    is_tiny = rms < _TINY / np.sqrt(3.0 * np.sqrt(np.maximum(counts, 1.0)))
    tiny = {site.path for site in weights.sites_where(is_tiny)}
    return np.asarray(was_zero | np.array([site.path in tiny for site in table.sites], bool))


def _says_nothing(history: History, facts: ModelFacts) -> bool:
    """Whether there is no loss, or none that tells how far the network has come."""
    if not len(history.losses) or facts.loss.is_through_others:
        return True
    return judgement(history, facts).is_vague


def _follows_jump(history: History, step: int) -> bool:
    """Whether the loss had jumped before this step, by itself, and is not back.

    Then large updates are what comes of it, for example of a new task.
    """
    losses = history.losses
    now = median(losses.last(5))
    earlier = [each for each in losses.spikes.kept if each.step < step]
    return any(
        not each.is_back(now, losses.initial) and not rate_rise(history, each) for each in earlier
    )


def _has_jumped(history: History, factor: float) -> bool:
    """Whether the last two losses are far above the first one."""
    losses = history.losses
    if len(losses) < 3 or not losses.values[0] > 0:
        return False
    return bool(np.all(losses.last(2) > factor * losses.values[0]))


def _course(history: History, facts: ModelFacts) -> dict[str, float]:
    """The course of the loss, and the learning rate if it is known."""
    losses = {"initial loss": history.losses.initial, "current loss": history.losses.recent}
    known = history.numbers.get("learning_rate")
    rate = known[-1][1] if known else facts.optimizer.learning_rate
    return losses if rate is None else {**losses, "learning rate": rate}
