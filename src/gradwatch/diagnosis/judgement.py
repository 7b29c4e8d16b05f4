"""Whether a network learns: the one judgement that all rules and the verdict share."""

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import ADDED_LOSS, ModelFacts
from gradwatch.diagnosis.accuracy import newest_accuracy
from gradwatch.diagnosis.chance import (
    SKILL,
    Level,
    constant_accuracy,
    constant_guess,
    moves_logits,
    paired_skill,
    term_skill,
)
from gradwatch.diagnosis.data_losses import data_losses, is_added
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.losses import Losses, median
from gradwatch.diagnosis.rising_scores import rests, rises
from gradwatch.diagnosis.value_table import Array

_LEAST = 10
"""Losses before anything is said."""
_FALL = 0.05
"""The share by which the loss must have fallen to have moved at all; batches differ by as much."""
_MOVED = 0.3
"""The share by which a loss of unknown meaning may have fallen, with its noise, to be flat."""
_SIGNIFICANT = 2.5
"""Standard errors; noise alone exceeds them once in a hundred times."""
_FEW = 30
"""Losses; with fewer, a loss that is only too noisy to have fallen for sure is not flat."""
_CREEPS = 5e-4
"""The share by which the loss must fall from one third of its course to the next."""
_PLATEAU = 150
"""Losses; while other terms fall, the one that tells what is learned may rest at chance so long."""


class Word(StrEnum):
    """The judgement in a word."""

    LEARNED = "learned"
    STILL_LEARNING = "still learning"
    LEARNED_NOTHING = "learned nothing"
    GOT_WORSE = "got worse"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Judgement:
    """How far the training has come.

    Attributes:
        losses: how many losses it is based on.
        start, now: levels of the loss at the start and now.
        chance: the loss of the best constant guess; NaN if unknown.
        fall: the share of the initial loss by which it has fallen; NaN while too few are known.
        is_significant: whether the change since the start is beyond the noise.
        is_falling: whether the loss still falls, by more than its noise.
        slope: by how much it falls in a step.
        is_signed: whether the loss has been below 0: then its size and a flat course mean little.
        accuracy: the newest accuracy, or a similar score; NaN if unknown.
        best_constant: the accuracy of the best constant guess; NaN if unknown.
        paired: the skill by the same batches of both losses; None if too few are known.
        term: the skill by a term of the loss, where only that can be compared.
        patience: the losses before one that rests at the constant guess's is taken to stay there.
        is_rising: whether a score that the loop reports rises, such as the return of a policy.
        is_resting: whether such scores have not risen, although there are many.
        is_of_terms: whether the loss has terms of its own kind beside the one that is known.
        is_past_scale: whether logits have moved by much that hardly count: see `moves_logits`.
        added: what regularizers add to the loss, and all levels here are without; NaN if nothing.
    """

    losses: int
    start: Level
    now: Level
    chance: Level
    fall: float
    is_significant: bool
    is_falling: bool
    slope: float = math.nan
    is_signed: bool = False
    accuracy: float = math.nan
    best_constant: float = math.nan
    paired: Level | None = None
    term: Level | None = None
    patience: int = _FEW
    added: float = math.nan
    is_rising: bool = False
    is_resting: bool = False
    is_of_terms: bool = False
    is_past_scale: bool = False

    @property
    def skill(self) -> Level:
        """The share of the constant guess's loss that the network has removed; NaN if unknown."""
        guess = self.chance.value
        if self.term is not None:
            return self.term
        if not guess > 0:
            return Level(math.nan)
        # A guess that is uncertain makes the skill uncertain.
        error = math.hypot(self.now.error, self.now.value / guess * self.chance.error) / guess
        if self.paired is not None and self.paired.error < error:
            return self.paired
        return Level(1.0 - self.now.value / guess, error)

    @property
    def is_accurate(self) -> bool:
        """Whether the accuracy is well above that of the best constant guess."""
        above = self.accuracy - self.best_constant
        return above > 2.0 * SKILL * max(1.0 - self.best_constant, 0.05)

    @property
    def has_learned(self) -> bool:
        """Whether it has certainly learned something."""
        if self.losses < _LEAST:
            return False
        if math.isfinite(self.skill.value):
            return self.skill.low > SKILL or self.is_accurate or self.is_past_scale
        is_far = self.is_significant and self.fall > 0.5 and not self.is_idle
        return self.is_accurate or self.is_rising or is_far

    @property
    def is_proven(self) -> bool:
        """Whether it has learned, compared with a constant guess rather than with its own start."""
        is_known = math.isfinite(self.skill.value) or math.isfinite(self.best_constant)
        return is_known and self.has_learned

    @property
    def is_flat(self) -> bool:
        """Whether the loss shows no progress; False while too little is known.

        It has fallen by less than its noise or 5 %, or only to the constant guess's. A loss that is
        too noisy does not contradict rules that have other evidence.
        """
        if self.has_learned or math.isnan(self.fall):
            return False
        is_noise = not self.is_significant and (self.losses >= _FEW or self.fall < 2.0 * SKILL)
        return self.fall < _FALL or is_noise or self.is_at_chance

    @property
    def is_vague(self) -> bool:
        """Whether nothing tells how far it has come, as of the loss of a policy."""
        return self.is_signed and math.isnan(self.chance.value)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is learned by what tells it instead of the loss: a score."""
        return self.is_resting and (self.is_vague or self.is_of_terms)

    @property
    def is_at_chance(self) -> bool:
        """Whether the loss has come to rest at that of the constant guess."""
        is_near = abs(self.skill.value) < max(_FALL, 2.0 * self.skill.error)
        # A loss that falls passes this level, too.
        return self.losses >= self.patience and not self.is_falling and is_near

    @property
    def is_nothing(self) -> bool:
        """Whether it is flat, and not only too noisy to tell."""
        if not math.isfinite(self.skill.value):
            noise = math.hypot(self.start.error, self.now.error) / (abs(self.start.value) or 1.0)
            return self.is_flat and not self.fall + 2.0 * noise > _MOVED
        return self.is_flat and (self.skill.high < SKILL or self.skill.value < -_FALL)

    @property
    def has_moved(self) -> bool:
        """Whether the loss falls beyond doubt, if only a little."""
        return self.is_falling or (self.is_significant and self.fall > 0)

    @property
    def word(self) -> Word:
        if self.losses < _LEAST or math.isnan(self.fall):
            return Word.UNKNOWN
        if self.is_idle:
            return Word.LEARNED_NOTHING
        is_far = self.skill.value > 0.5 or not self.is_falling
        if self.has_learned and (is_far or self.fall > 0.5):
            return Word.LEARNED
        has_risen = self.is_significant and self.fall < -_FALL
        if (has_risen or self.fall < -2.0) and not self.is_falling:
            return Word.GOT_WORSE
        if self.is_falling and not self.is_flat:
            return Word.STILL_LEARNING
        if self.is_flat and self.is_vague:
            return Word.UNKNOWN
        if self.is_flat and self.is_falling:
            return Word.STILL_LEARNING
        if self.is_nothing:
            return Word.LEARNED_NOTHING
        is_known = math.isfinite(self.skill.value) or self.is_flat or self.fall < _MOVED
        return Word.UNKNOWN if is_known else Word.LEARNED

    def evidence(self) -> dict[str, float]:
        """The numbers behind it, as far as they are known."""
        known = {
            "initial loss": self.start.value,
            "current loss": self.now.value,
            "regularization": self.added,
            "loss of the best constant guess": self.chance.value,
            "accuracy": self.accuracy,
            "accuracy of the best constant guess": self.best_constant,
        }
        return {name: value for name, value in known.items() if math.isfinite(value)}


def judgement(history: History, facts: ModelFacts) -> Judgement:
    """What is known of the progress of a training."""
    return history.cached_per_step("judgement", lambda: _judged(history, facts))


def _judged(history: History, facts: ModelFacts) -> Judgement:
    losses = data_losses(history, facts)
    start, now = _start(losses), _now(losses)
    fall, is_significant = math.nan, False
    # What a loss through an adversary comes to, depends on both.
    if len(losses) >= _LEAST and losses.initial and not facts.loss.is_through_others:
        fall = (start.value - now.value) / abs(start.value)
        is_significant = _is_significant(losses, start, now)
    accuracy = newest_accuracy(history)
    term = term_skill(history, facts)
    steps, values = losses.steps[-2000:], losses.last(2000)
    if term is not None:
        # Penalties may fall while nothing is learned.
        steps, values = np.array(history.numbers["term_loss"]).T
    is_falling, slope = _trend(steps, values)
    chance = constant_guess(history, facts)
    return Judgement(
        losses=len(history.losses),
        start=start,
        now=now,
        chance=chance,
        fall=fall,
        is_significant=is_significant,
        is_falling=is_falling,
        slope=slope,
        is_signed=bool(np.nanmin(losses.values, initial=1.0) < 0),
        accuracy=accuracy,
        best_constant=constant_accuracy(history, facts) if math.isfinite(accuracy) else math.nan,
        paired=paired_skill(history, losses, chance.value),
        term=term,
        patience=_FEW if term is None or history.has_ended else _PLATEAU,
        is_rising=rises(history),
        is_resting=rests(history, _PLATEAU),
        is_of_terms=facts.loss.rest == "terms",
        is_past_scale=is_significant and moves_logits(facts, start, now),
        added=history.numbers[ADDED_LOSS][-1][1] if is_added(history, facts) else math.nan,
    )


def _is_significant(losses: Losses, start: Level, now: Level) -> bool:
    """Whether the change since the start is beyond the noise, by the ends or by the thirds."""
    if abs(start.value - now.value) > _SIGNIFICANT * math.hypot(start.error, now.error):
        return True
    values = losses.last(2000)
    values = values[np.isfinite(values)]
    third = values.size // 3
    first, last = values[:third], values[-third:]
    if third < 10 or (first.mean() - last.mean()) * (start.value - now.value) < 0:
        return False
    noise = math.hypot(_error(first), _error(last))
    return abs(float(first.mean() - last.mean())) > _SIGNIFICANT * noise


def _start(losses: Losses) -> Level:
    first = losses.first
    # Five losses hardly show their noise, nor whether they depend on each other: those of today do.
    newest = losses.last(max(len(losses) // 3, _LEAST))
    newest = newest[np.isfinite(newest)]
    usual = 0.0
    if newest.size >= _LEAST and first.size:
        independent = max(first.size / _dependence(newest), 1.0)
        usual = float(_without_slope(newest).std()) / math.sqrt(independent)
    return Level(losses.initial, max(_error(_without_slope(first)), usual))


def _without_slope(values: Array) -> Array:
    """The values without their linear course: a loss that falls steeply at first is not noisy."""
    if values.size < 3:
        return values
    place = np.arange(values.size) - (values.size - 1) / 2.0
    return values - place * float(place @ values) / float(place @ place)


def _now(losses: Losses) -> Level:
    window = losses.window()
    return Level(losses.recent, _error(window[np.isfinite(window)]))


def _error(values: Array) -> float:
    """The standard error of the mean of consecutive losses."""
    if values.size < 3:
        return math.inf
    # A single odd batch says nothing about all others.
    middle = median(values)
    usual = median(np.abs(values - middle))
    if values.size >= _LEAST and usual > 0:
        values = np.clip(values, middle - 8.0 * usual, middle + 8.0 * usual)
    return float(values.std(ddof=1)) * math.sqrt(_dependence(values) / values.size)


def _dependence(values: Array) -> float:
    """How many consecutive losses say as much as one that does not depend on its neighbours."""
    away = values - values.mean()
    total = float(away @ away)
    # Of few values, this cannot be told from chance.
    if values.size < 10 or total <= 0:
        return 1.0
    similar = min(max(float(away[1:] @ away[:-1]) / total, 0.0), 0.9)
    return (1.0 + similar) / (1.0 - similar)


def _trend(steps: Array | NDArray[np.int64], values: Array) -> tuple[bool, float]:
    """Whether the newest losses are below those before them, beyond the noise; and how fast."""
    is_finite = np.isfinite(values)
    values, steps = values[is_finite], steps[is_finite]
    part = max(values.size // 3, 5)
    before, after = values[-2 * part : -part], values[-part:]
    if before.size < 5:
        return False, math.nan
    fall = float(before.mean() - after.mean())
    noise = math.hypot(_error(before), _error(after))
    # Within so few steps, only a clear fall is one; and a loss without noise always moves a little.
    least = (0.03 if part == 5 else _CREEPS) * abs(float(after.mean()))
    between = float(steps[-part:].mean() - steps[-2 * part : -part].mean())
    return fall > max(_SIGNIFICANT * noise, least), fall / max(between, 1.0)
