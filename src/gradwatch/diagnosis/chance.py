"""What a model that ignores its input would reach: the loss of the best constant guess."""

import math
from dataclasses import dataclass

import numpy as np

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.losses import Losses
from gradwatch.diagnosis.squared_errors import own_variances
from gradwatch.diagnosis.value_table import Array, ValueTable
from gradwatch.diagnosis.vocabulary import SQUARED_ERROR, LossKind, loss_kind

SKILL = 0.1
"""The share of the constant guess's loss that a network must have removed to have learned."""
_STEPS = 256
"""Measured steps whose targets are looked at, at most."""
_NOTHING = 1e-9
"""Of a guess's loss; rounding."""
_SMALL_SCALE, _MOVED = 1e-2, 0.3
"""A factor of logits with which they hardly count; by how much they have moved for sure."""
_PAIRS = 10
"""Batches with both losses, that of the network and that of the guess, to compare the two."""


@dataclass(frozen=True)
class Level:
    """A level of the loss, and its standard error."""

    value: float
    error: float = 0.0

    @property
    def low(self) -> float:
        """The lower end of the 95 % interval."""
        return self.value - 2.0 * self.error

    @property
    def high(self) -> float:
        """The upper end of the 95 % interval."""
        return self.value + 2.0 * self.error


def chance_level(history: History, facts: ModelFacts) -> float:
    """The loss of the best constant guess; NaN if unknown."""
    return constant_guess(history, facts).value


def constant_guess(history: History, facts: ModelFacts) -> Level:
    """The loss of the best constant guess; NaN if unknown.

    From what the targets of each measured step would give by themselves. If only their summaries
    are known, the classes are taken to be equally frequent.
    """
    return history.cached_per_step("chance", lambda: _constant_guess(history, facts))


def _constant_guess(history: History, facts: ModelFacts) -> Level:
    if not facts.loss.is_mean:
        return Level(math.nan)
    known = [value for _, value in history.numbers.get("constant_loss", ())[-_STEPS:]]
    if not known:
        own = own_variances(history, facts)
        if own and not differ_by_batch(history[Kind.TARGET]):
            return Level(_for_many_samples(float(np.mean(own)), history, facts))
        # Where samples have weights, of classes for example, the loss is on another scale.
        return Level(math.nan if is_weighted(history) else _from_summaries(history, facts))
    if not np.isfinite(known).all():
        return Level(math.nan)
    value = float(np.mean(known))
    error = float(np.std(known)) / math.sqrt(len(known))
    if differ_by_batch(history[Kind.TARGET]):
        # The guess for a single batch says nothing about all of them.
        pooled = _from_summaries(history, facts)
        return Level(max(pooled, value) if math.isfinite(pooled) else math.nan)
    if not value > _NOTHING:
        # One answer is right for all: the positive of a contrast has a fixed place, for example.
        return Level(math.nan)
    return Level(_for_many_samples(value, history, facts), error)


def is_weighted(history: History) -> bool:
    """Whether samples have weights, of their classes for example: those of validation may not."""
    return "sample_weight" in history.numbers or "weighted_guess" in history.numbers


def guess_of_validation(history: History, facts: ModelFacts) -> float:
    """The loss of the best constant guess for other data; NaN if unknown."""
    return math.nan if is_weighted(history) else chance_level(history, facts)


def left_by_weights(history: History) -> float:
    """The share of what there is to learn about classes that their weights leave; NaN if unknown.

    It is the entropy of the weighted classes over that of the classes themselves.
    """
    both = [history.numbers.get(name, ()) for name in ("weighted_guess", "class_guess")]
    weighted, plain = (float(np.mean([x for _, x in each[-_STEPS:]] or [0.0])) for each in both)
    return weighted / plain if plain > _NOTHING else math.nan


def guess_since(history: History, facts: ModelFacts, step: int) -> float:
    """The loss of the best constant guess for the batches since a step; NaN if unknown.

    If none of them was measured, for the newest batch that was.
    """
    known = history.numbers.get("constant_loss", ())
    if not known or not math.isfinite(chance_level(history, facts)):
        return math.nan
    return float(np.mean([value for at, value in known if at >= step] or [known[-1][1]]))


def paired_skill(history: History, losses: Losses, guess: float) -> Level | None:
    """The share of the guess's loss that is removed, by batches of which both losses are known.

    What makes a batch hard for the network mostly makes it hard for the guess, too: so this is far
    more certain than what the levels of both tell. None if there are too few such batches.
    """
    known = history.numbers.get("constant_loss", ())[-_STEPS:]
    if not guess > 0 or len(known) < _PAIRS or not losses.steps.size or not losses.has_single:
        return None
    if differ_by_batch(history[Kind.TARGET]):
        return None
    first = losses.steps[-min(max(losses.steps.size // 3, _PAIRS), losses.steps.size)]
    own = np.array([pair for pair in known if pair[0] >= first]).reshape(-1, 2)
    places = np.searchsorted(losses.steps, own[:, 0]).clip(max=losses.steps.size - 1)
    values, guesses = losses.values[places], own[:, 1]
    is_usable = (losses.steps[places] == own[:, 0]) & np.isfinite(values + guesses)
    if is_usable.sum() < _PAIRS:
        return None
    # Of each batch its own guess is too good, see `_for_many_samples`.
    guesses = guesses[is_usable] * (guess / float(np.mean([value for _, value in known])))
    left = float(values[is_usable].mean() / guesses.mean())
    away = values[is_usable] - left * guesses
    return Level(1.0 - left, float(away.std() / guesses.mean()) / math.sqrt(len(guesses)))


def term_skill(history: History, facts: ModelFacts) -> Level | None:
    """The share of the guess's loss that is removed, if only a term of the loss can be compared.

    None if too few batches are known. Where other terms may matter as much, as the policy does
    beside its critic, only success is known.
    """
    terms = history.numbers.get("term_loss", ())[-_STEPS:]
    known = np.array(history.numbers.get("constant_loss", ())).reshape(-1, 2)
    if facts.loss.is_mean or len(terms) < _PAIRS or not len(known):
        return None
    if differ_by_batch(history[Kind.TARGET]):
        return None
    # The last third of the steps, of which fewer may be measured than of those before.
    newest = sum(step > 2 * history.step // 3 for step, _ in terms)
    own = np.array(terms[-max(newest, _PAIRS) :])
    # Only changes are kept.
    places = np.searchsorted(known[:, 0], own[:, 0], side="right") - 1
    is_usable = (places >= 0) & np.isfinite(own[:, 1])
    values, guesses = own[is_usable, 1], known[places[is_usable], 1]
    usual = float(np.mean(known[-_STEPS:, 1]))
    if values.size < _PAIRS or not usual > 0:
        return None
    guesses = guesses * (_for_many_samples(usual, history, facts) / usual)
    left = float(values.mean() / guesses.mean())
    away = values - left * guesses
    found = Level(1.0 - left, float(away.std() / guesses.mean()) / math.sqrt(len(guesses)))
    return found if facts.loss.rest != "terms" or found.low > SKILL else None


def moves_logits(facts: ModelFacts, start: Level, now: Level) -> bool:
    """Whether the loss has fallen by as much as logits can do that hardly count.

    With a temperature of 1,000, the loss of the best answers is nearly that of a guess.
    """
    scale = abs(facts.loss.scale or 1.0)
    return scale < _SMALL_SCALE and start.value - now.value > _MOVED * scale


def _for_many_samples(value: float, history: History, facts: ModelFacts) -> float:
    """The guess for all data, from those that fit the few samples of a batch best."""
    table, kind, last = history[Kind.TARGET], loss_kind(facts.loss.name), facts.last_layer
    samples = facts.batch_size or 0
    if not samples and len(table) and last is not None and last.units == 1:
        samples = int(np.nanmax(table.latest("count")))
    if kind in (LossKind.SPARSE, LossKind.CATEGORICAL) or facts.loss.name == "cross_entropy":
        if kind is LossKind.SPARSE and len(table):
            samples = int(np.nanmax(table.latest("count")))
        classes = _classes(facts)
        if samples < 2 or classes is None:
            return value
        # Miller and Madow's correction, which may not exceed equally frequent classes.
        return min(value + (classes - 1) / (2.0 * samples), max(math.log(classes), value))
    if samples < 2:
        return value
    if kind is LossKind.BINARY:
        return min(value + 0.5 / samples, max(math.log(2.0), value))
    return value * samples / (samples - 1)


def differ_by_batch(table: ValueTable) -> bool:
    """Whether the means of batches differ about as much as the targets within: sorted data."""
    if len(table.sites) != 1 or len(table) < 4:
        return False
    means, spreads = (table.column(name, 0, _STEPS) for name in ("mean", "std"))
    # The elements of a sample, such as the pixels of an image, depend on each other.
    return bool(np.var(means) > 0.25 * np.mean(spreads**2))


def _classes(facts: ModelFacts) -> int | None:
    last = facts.last_layer
    return last.units if last is not None and last.units and last.units > 1 else None


def _from_summaries(history: History, facts: ModelFacts) -> float:
    """From what the summaries of the targets tell: exact for two classes and for single values."""
    name, last, table = facts.loss.name, facts.last_layer, history[Kind.TARGET]
    kind, classes = loss_kind(name), _classes(facts)
    if kind in (LossKind.SPARSE, LossKind.CATEGORICAL) or name == "cross_entropy":
        if name == "categorical_focal_crossentropy":
            return math.nan
        return math.log(classes) if classes is not None else math.nan
    if name in ("binary_crossentropy", "bce"):
        share = float(np.nanmean(table.column("mean", 0, _STEPS))) if len(table) else 0.5
        return _entropy(share) if 0.0 < share < 1.0 else math.log(2.0)
    # With several outputs, the spread of the targets includes the known spread between them.
    is_single = last is not None and last.units == 1
    if name in SQUARED_ERROR and is_single and len(table):
        means = table.column("mean", 0, _STEPS)
        within: Array = table.column("std", 0, _STEPS) ** 2
        return float(np.nanmedian(within) + (np.nanvar(means) if differ_by_batch(table) else 0.0))
    return math.nan


def _entropy(share: float) -> float:
    return -share * math.log(share) - (1.0 - share) * math.log(1.0 - share)


def constant_accuracy(history: History, facts: ModelFacts) -> float:
    """The accuracy of always guessing the most frequent class; NaN if unknown."""
    kind = loss_kind(facts.loss.name)
    table = history[Kind.TARGET]
    if kind is LossKind.BINARY and len(table):
        share = float(np.nanmean(table.column("mean", 0, _STEPS)))
        return max(share, 1.0 - share) if 0.0 <= share <= 1.0 else math.nan
    classes = _classes(facts)
    entropy = chance_level(history, facts)
    if is_weighted(history):
        # Of right answers, all count the same.
        known = [value for _, value in history.numbers.get("class_guess", ())[-_STEPS:]]
        entropy = float(np.mean(known)) if known else math.nan
    if classes is None or not math.isfinite(entropy):
        return math.nan
    # One class of this share and all others equally frequent would have the same entropy.
    low, high = 1.0 / classes, 1.0
    for _ in range(30):
        share = (low + high) / 2.0
        others = (1.0 - share) * math.log(max(classes - 1, 1))
        low, high = (
            (share, high) if _entropy(min(share, 1 - 1e-12)) + others > entropy else (low, share)
        )
    return low


def loss_of_zero(history: History, facts: ModelFacts) -> float:
    """The squared error of a model that always returns 0; NaN if unknown."""
    if facts.loss.name not in SQUARED_ERROR or Kind.TARGET not in history:
        return math.nan
    return float(np.nanmedian(history[Kind.TARGET].column("rms", 0, 4)) ** 2)
