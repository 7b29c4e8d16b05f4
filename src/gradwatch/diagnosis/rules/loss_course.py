"""A loss that is flat, oscillates, diverges or is negative; a validation loss that rises."""

import math
import re

import numpy as np

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.chance import (
    chance_level,
    constant_accuracy,
    differ_by_batch,
    guess_of_validation,
    guess_since,
)
from gradwatch.diagnosis.finding import Severity, Symptom, Symptoms
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.judgement import Word, judgement
from gradwatch.diagnosis.losses import median
from gradwatch.diagnosis.quantities import typical_ratios
from gradwatch.diagnosis.reasons import numbered, reasons
from gradwatch.diagnosis.rule import Limits, Threshold, rule
from gradwatch.diagnosis.validation import validations
from gradwatch.diagnosis.value_table import Array
from gradwatch.diagnosis.vocabulary import LossKind, is_non_negative, loss_kind

_SEQUENCE = re.compile(r"RNN|LSTM|GRU|Attention|Transformer")


@rule(
    "loss-not-falling",
    remedy=(
        "The model has learned nothing so far. First try to fit a single batch; then check the "
        "labels, the learning rate (10 times higher, 10 times lower) and the input of the loss."
    ),
    thresholds={
        "losses": Threshold(300, "many trainings begin with a plateau that long"),
        "losses of sequences": Threshold(600, "those of recurrent networks are longer"),
    },
)
def loss_not_falling(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """The loss is still at its initial level."""
    losses, so_far = history.losses, judgement(history, facts)
    is_sequence = any(_SEQUENCE.search(layer.class_name or "") for layer in facts.layers)
    least = limits["losses of sequences" if is_sequence else "losses"]
    if len(losses) < least or history.first_step > 1 or facts.loss.is_of_own_step:
        return
    if so_far.word is not Word.LEARNED_NOTHING or history.is_warming_up():
        return
    # A loss that had fallen, and has jumped since, is not where it started.
    if losses.lowest < 0.8 * min(losses.initial, so_far.now.value):
        return
    yield Symptom(
        title=f"The loss has not fallen in {len(losses):,} steps.",
        evidence={**so_far.evidence(), **numbered(reasons(history, facts))},
        since=int(losses.steps[0]),
    )


@rule(
    "loss-oscillating",
    remedy="Lower the learning rate, use larger batches, or accumulate gradients over several.",
    thresholds={
        "losses": Threshold(20, "enough to distinguish oscillation from a single odd batch"),
        "losses of odd batches": Threshold(60, "if batches are small or differ in their targets"),
        "losses without an end": Threshold(150, "while training goes on: noise alone swings, too"),
        "correlation": Threshold(-0.6, "of neighbours, if steps go too far to and fro"),
        "correlation of batches": Threshold(0.5, "with a constant guess: batches are odd"),
        "swing": Threshold(3.0, "factor between high and low losses of the window"),
        "turns": Threshold(0.5, "share of the steps at which it turns; of pure noise it is 2/3"),
        "ratio": Threshold(0.01, "of update to weight, if it is not known what the loss means"),
    },
)
def loss_oscillating(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """The loss oscillates widely and does not fall."""
    losses = history.losses
    # Losses of small batches always oscillate, and the batch size may be unknown.
    is_odd = (facts.batch_size or 0) < 16 or differ_by_batch(history[Kind.TARGET])
    least = limits["losses of odd batches" if is_odd else "losses"]
    so_far = judgement(history, facts)
    # Such a loss is too noisy to tell whether it has fallen: its level must be that of the start.
    if len(losses) < least or not so_far.is_flat or so_far.fall > 0.05:
        return
    window = losses.last(int(limits["losses"]))
    if not np.all(np.isfinite(window)) or window.min() <= 0:
        return
    # Losses of batches that differ go up and down at random; of steps that go too far, in turns.
    is_late = history.has_ended or len(losses) >= limits["losses without an end"]
    if not is_late and not _correlation(window[1:], window[:-1]) < limits["correlation"]:
        return
    if _with_guess(history) > limits["correlation of batches"]:
        return
    # A single jump is no oscillation.
    first = int(losses.steps[-window.size])
    if any(spike.step >= first for spike in losses.spikes.kept):
        return
    # Faster than numpy.quantile, with the same result.
    ordered = np.sort(window)
    tenth = window.size // 10
    low, high = ordered[tenth], ordered[-1 - tenth]
    changes = np.diff(window)
    turns = float(np.mean(np.sign(changes[1:]) != np.sign(changes[:-1])))
    if high < limits["swing"] * low or turns < limits["turns"]:
        return
    # A loss of unknown meaning may be noise, and what is learned not show in it.
    is_known = math.isfinite(so_far.skill.value) or Kind.UPDATE not in history
    newest = () if is_known else typical_ratios(history, facts)[-20:]
    is_fast = is_known or np.nanmax(newest, initial=0.0) > limits["ratio"]
    yield Symptom(
        severity=None if is_fast else Severity.INFO,
        title=f"The loss oscillates between {low:.3g} and {high:.3g} without falling.",
        evidence={
            "low (10 %)": float(low),
            "high (90 %)": float(high),
            "initial loss": losses.initial,
        },
        since=first,
    )


def _with_guess(history: History) -> float:
    """The correlation of the newest losses with those of a constant guess for the same batches."""
    known = dict(history.numbers.get("constant_loss", ())[-64:])
    newest = zip(history.losses.steps[-128:].tolist(), history.losses.last(128), strict=True)
    pairs = [(value, known[step]) for step, value in newest if step in known]
    if len(pairs) < 5 or not history.losses.has_single:
        return math.nan
    return _correlation(*np.array(pairs).T)


def _correlation(some: Array, others: Array) -> float:
    """Of pairs; NaN if it is not known."""
    some, others = some - some.mean(), others - others.mean()
    size = math.sqrt(float(some @ some) * float(others @ others))
    return float(some @ others) / size if size > 0 else math.nan


@rule(
    "loss-diverging",
    severity=Severity.ERROR,
    remedy="Lower the learning rate by a factor of 10, clip gradients, or scale the targets.",
    thresholds={
        "growth": Threshold(3.0, "over its initial level; batches differ by less"),
        "losses": Threshold(5, "in a row; a few odd batches are not a divergence"),
        "losses of terms": Threshold(30, "if it is signed or has other terms: 0 is no floor"),
        "growth of terms": Threshold(30.0, "over the largest at the start, to be told at once"),
    },
)
def loss_diverging(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """The loss is several times its initial level."""
    losses = history.losses
    count = int(limits["losses"])
    if len(losses) < 2 * count or not math.isfinite(losses.initial):
        return
    if facts.loss.is_through_others:
        return  # An adversary may make it rise.
    window = losses.last(count)
    # The very first loss counts too: the loss may diverge from the second step on.
    start = min(losses.initial, float(losses.values[0])) if losses.initial > 0 else losses.initial
    # A factor of 0 would mean nothing.
    scale = abs(start) or 1.0
    if judgement(history, facts).is_vague or facts.loss.rest == "terms":
        # The terms may cancel out at the start: only those of many steps tell how large they are.
        first = losses.values[: max(count, len(losses) // 2)]
        largest = float(np.nanmax(np.abs(first)))
        is_early = len(losses) < limits["losses of terms"]
        scale = max(scale, largest * (limits["growth of terms"] if is_early else 1.0))
    if not np.all(window > start + (limits["growth"] - 1.0) * scale):
        return
    if window.min() <= np.max(losses.values[:count]) and len(losses) < 4 * count:
        return
    # Losses of a few samples, and signed ones, differ widely by themselves.
    before = losses.last(4 * count)[:-count]
    if not float(window.mean()) - start > 3.0 * float(before.std()):
        return
    # Fine-tuning starts low, and the loss soon rises a little; so it does if targets spread more.
    newest = guess_since(history, facts, int(losses.steps[-count]))
    if window.max() < np.fmax(chance_level(history, facts), newest):
        return
    yield Symptom(
        title=f"The loss diverges: from {losses.initial:.3g} to {window[-1]:.3g}.",
        evidence={"initial loss": losses.initial, "lowest recent loss": float(window.min())},
        since=int(losses.steps[-count]),
    )


@rule(
    "negative-loss",
    severity=Severity.ERROR,
    remedy=(
        "This loss cannot be negative for valid labels: check the range of the labels, the sign of "
        "a custom loss, and whether the loss expects this kind of output."
    ),
    thresholds={
        "losses": Threshold(2, "below 0; a single one may be rounding"),
        "margin": Threshold(1e-3, "below 0; rounding gives -1e-7"),
    },
)
def negative_loss(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """A loss that cannot be negative is negative, or an unknown loss falls ever faster.

    Or it falls, below 0, while the outputs go away from the targets.
    """
    is_unbounded = not is_non_negative(facts)
    is_reversed = is_unbounded and _is_reversed(history, facts)
    if is_unbounded and not (
        is_reversed or _falls_without_bound(history) or _falls_at_one_rate(history)
    ):
        return
    count = int(limits["losses"])
    window = history.losses.last(count)
    if window.size < count or not np.all(window < -limits["margin"]):
        return
    title = "The loss falls below 0 without bound." if is_unbounded else "The loss is negative."
    evidence = {"loss": float(window[-1]), "initial loss": history.losses.initial}
    if is_reversed:
        title = (
            "The loss falls below 0 while the outputs go away from the targets: is its sign wrong?"
        )
        evidence["correlation of outputs and targets"] = history.numbers["agreement"][-1][1]
    yield Symptom(
        title=title,
        evidence=evidence,
        since=int(history.losses.steps[-count]),
        severity=Severity.WARNING if is_unbounded else None,
    )


@rule(
    "overfitting",
    remedy=(
        "Stop at the best epoch (EarlyStopping with restore_best_weights), get more data or "
        "augment it, or regularize: dropout, weight decay, a smaller model."
    ),
    thresholds={
        "epochs": Threshold(5, "since validation was best; single epochs go up and down"),
        "rise": Threshold(0.2, "of the validation loss over its best"),
        "fall": Threshold(0.8, "of the training loss since then; otherwise training is just noisy"),
        "gap": Threshold(1.5, "factor between validation and training loss"),
        "loss": Threshold(0.2, "of the best constant guess's loss; a smaller rise hardly matters"),
        "score": Threshold(0.8, "of what accuracy can gain; then the model is only too sure"),
        "lost score": Threshold(0.1, "of what accuracy has gained, if that is half of what it can"),
    },
)
def overfitting(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """The validation loss rises or stays high for several epochs while the training loss falls."""
    known = validations(history, facts)
    # Short trainings have fewer epochs to show it.
    count = int(min(limits["epochs"], max(3, len(known) // 3)))
    if len(known) <= count:
        return
    best, last = min(known, key=lambda each: each.loss), known[-1]
    since_then = [each.loss for each in known if each.step > best.step]
    newest = [each.loss for each in known[-count:]]
    if best.loss <= 0 or last.loss < limits["gap"] * last.train:
        return
    # Each of the last epochs is worse.
    has_risen = len(since_then) >= count and min(newest) > (1.0 + limits["rise"]) * best.loss
    has_risen = has_risen and last.train < limits["fall"] * best.train
    has_risen = has_risen and _is_harmful(history, facts, limits)
    if not (has_risen or _is_memory(history, facts, newest)):
        return
    yield Symptom(
        title=f"The model overfits: the validation loss was lowest at step {best.step:,}.",
        evidence={
            "best validation loss": best.loss,
            "current validation loss": last.loss,
            "training loss then": best.train,
            "current training loss": last.train,
        },
        since=best.step,
    )


def _is_harmful(history: History, facts: ModelFacts, limits: Limits) -> bool:
    """Whether much is lost since validation was best, as far as that is known."""
    known = validations(history, facts)
    last, best = known[-1], min(each.loss for each in known)
    if last.loss - best < limits["loss"] * guess_of_validation(history, facts):
        return False
    constant = constant_accuracy(history, facts)
    top, gain = max(each.score for each in known), 1.0 - constant
    newest = median(np.array([each.score for each in known[-3:]]))
    # What it says is as often right as ever: it has only become too sure of it.
    is_kept = top - constant > 0.5 * gain and top - newest < limits["lost score"] * (top - constant)
    return not (is_kept or last.score - constant > limits["score"] * gain)


def _is_memory(history: History, facts: ModelFacts, newest: list[float]) -> bool:
    """Whether values that are predicted well in training are not even half so in validation."""
    guess = guess_of_validation(history, facts)
    if loss_kind(facts.loss.name) is not LossKind.REGRESSION or not guess > 0:
        return False
    train, last = validations(history, facts)[-1].train, validations(history, facts)[-1].loss
    is_done = last > 0.97 * float(np.median(newest))
    return train < 0.2 * guess and min(newest) > 0.6 * guess and is_done


def _falls_without_bound(history: History) -> bool:
    """Whether the loss falls ever faster below 0, as with a wrong sign."""
    losses = history.losses
    # The likelihood of a density may exceed 1 by far, but not like this.
    scale = max(abs(losses.initial), 1.0)
    if len(losses) < 15 or not losses.recent < -5.0 * scale:
        return False
    if not losses.recent < -30.0 * scale:
        parts = [losses.last(len(losses) // part) for part in (2, 3, 4)]
        return history.has_ended and all(map(_falls_ever_faster, parts))
    return _falls_ever_faster(losses.last(15)) or _falls_ever_faster(losses.last(len(losses) // 3))


def _falls_at_one_rate(history: History) -> bool:
    """Whether the loss falls below 0 in a straight line to the end, and nothing slows it down.

    What a network learns from data comes ever more slowly; a number that only the loss asks to grow
    does not.
    """
    losses = history.losses
    values = losses.last(len(losses) // 2)
    if not history.has_ended or values.size < 50 or not np.isfinite(values).all():
        return False
    if not losses.recent < -3.0 * max(abs(losses.initial), 1.0):
        return False
    half = values.size // 2
    before, after = (
        np.polyfit(np.arange(half), part, 1)[0] for part in (values[:half], values[-half:])
    )
    line = np.polyval(np.polyfit(np.arange(values.size), values, 1), np.arange(values.size))
    return bool(after < 0.9 * before < 0 and (values - line).std() < 0.03 * (line[0] - line[-1]))


def _falls_ever_faster(values: Array) -> bool:
    part = values.size // 3
    if part < 5:
        return False
    first, middle, last = (float(np.mean(x)) for x in np.split(values[-3 * part :], 3))
    return first > middle > last and middle - last > 1.2 * (first - middle)


def _is_reversed(history: History, facts: ModelFacts) -> bool:
    """Whether outputs and targets are opposites, ever more so, while the loss falls."""
    known = np.array([value for _, value in history.numbers.get("agreement", ())])
    so_far = judgement(history, facts)
    if known.size < 15 or not (so_far.is_significant and so_far.now.value < so_far.start.value):
        return False
    first, last = known[:5], known[-max(known.size // 3, 5) :]
    error = float(last.std(ddof=1)) / math.sqrt(last.size)
    return bool(last.mean() + 4.0 * error < min(-0.05, float(first.mean())))
