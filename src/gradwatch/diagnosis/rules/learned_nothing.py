"""A training that has ended and come to nothing."""

import math

import numpy as np

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.answer_checks import are_deaf
from gradwatch.diagnosis.chance import SKILL
from gradwatch.diagnosis.data_losses import data_losses
from gradwatch.diagnosis.finding import Symptom, Symptoms
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.judgement import Judgement, Word, judgement
from gradwatch.diagnosis.losses import Losses
from gradwatch.diagnosis.outputs_skill import IdleOutput, idle_outputs, skill_for_the_rest
from gradwatch.diagnosis.reasons import numbered, reasons
from gradwatch.diagnosis.rule import Limits, Threshold, rule
from gradwatch.diagnosis.validation import generalisation, validations

_HARDLY = 0.05
"""The share of the guess's loss that is removed at most where nothing is learned."""
_ON_ITS_WAY = 0.2
"""The share of the initial loss; weights that are large by mistake lose it at once, and rest."""


@rule(
    "learned-nothing",
    remedy=(
        "First try to fit a single batch. If that works, look at the data: whether each label "
        "belongs to its input; if not, at the learning rate and at what the loss is given."
    ),
    thresholds={
        "losses": Threshold(50, "steps in which a network that can learn shows it"),
        "losses of unknown scale": Threshold(150, "if the best constant guess is not known"),
        "losses to fall": Threshold(75, "a loss that falls still, may be about to learn"),
        "times longer": Threshold(10, "for half of the guess's loss; then it only creeps"),
        "losses on a frozen base": Threshold(150, "if better than a guess: the base may be next"),
        "usual class": Threshold(0.5, "of the targets; then little else shows in the loss"),
        "validations": Threshold(3, "single ones may be odd"),
    },
)
def learned_nothing(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """At the end the model is no better than a constant guess, or than it was at the start."""
    if not history.has_ended or history.first_step > 1:
        return
    # A loss that depends on others need not fall.
    if facts.loss.is_through_others:
        return
    so_far = judgement(history, facts)
    # Nor one of its own kind, unless the answers have nothing to do with their targets either.
    is_own = bool(facts.loss.is_of_own_step)
    if is_own and not are_deaf(history):
        return
    is_known = is_own or math.isfinite(so_far.skill.value)
    least = limits["losses" if is_known else "losses of unknown scale"]
    if so_far.losses < least:
        return
    is_early = so_far.is_falling and so_far.losses < limits["losses to fall"]
    if is_early and not _is_crawling(so_far, history.step * limits["times longer"]):
        return
    # The first fit of a new head is short, and what is frozen may not suit it.
    is_begun = so_far.is_falling or so_far.skill.low > 0
    if _has_base(facts) and is_begun and so_far.losses < limits["losses on a frozen base"]:
        return
    why = reasons(history, facts)
    evidence = {**so_far.evidence(), **numbered(why)}
    if _is_nothing(history, facts):
        first = f": {why[0]}" if why else ""
        yield Symptom(
            title=f"The network has learned nothing in {history.step:,} steps{first}.",
            evidence=evidence,
        )
    elif _is_memory(history, facts, limits["validations"]):
        yield Symptom(
            title="What the network has learned does not hold for the validation data: there it "
            "is no better than a constant guess.",
            evidence=evidence,
            remedy="Check that each label belongs to its input, and that training and validation "
            "data are prepared alike and drawn from the same source.",
            about="validation",
        )
    else:
        yield from (_about_output(idle, history.step) for idle in idle_outputs(history))
        yield from _only_the_usual(history, facts, limits)


def _only_the_usual(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """Where most targets are of one class, such as padding, and the others are not told apart."""
    known = skill_for_the_rest(history)
    if known is None:
        return
    share, skill = known
    if share < limits["usual class"] or not skill.high < _HARDLY:
        return
    yield Symptom(
        title=f"Only the most frequent class is learned, that of {share:.0%} of the targets: all "
        "others are told apart no better than by a guess.",
        evidence={
            "share of the most frequent class": share,
            "share of the guess's loss for the others": 1.0 - skill.value,
        },
        remedy="If it is padding or background, leave it out of the loss (ignore_index, "
        "mask_zero, sample_weight). Check that the labels of the others belong to their inputs.",
        about="rest",
    )


def _about_output(idle: IdleOutput, steps: int) -> Symptom:
    look = "what its loss is given, and its weight among the losses."
    if idle.is_drowned:
        title = (
            f"The output {idle.name} learns nothing: its loss counts for {idle.share:.1e} of all."
        )
        look = f"its weight among the losses: it is far too small. Then {look[:24]}."
    else:
        title = (
            f"The output {idle.name} has learned nothing in {steps:,} steps: it is no better than "
            "a constant guess."
        )
        look = f"that each label of this output belongs to its input, {look}"
    return Symptom(
        title=title,
        evidence={
            "share of the constant guess's loss": 1.0 - idle.skill.value,
            "share among the losses": idle.share,
        },
        remedy=f"Check {look}",
        about=f"output {idle.name}",
    )


def _is_crawling(so_far: Judgement, steps: float) -> bool:
    """Whether the loss falls so slowly that nothing is learned in so many steps either."""
    needed = so_far.now.value - 0.5 * so_far.chance.value
    return so_far.skill.high < _HARDLY and needed > steps * so_far.slope > 0


def _has_base(facts: ModelFacts) -> bool:
    """Whether most of the network is frozen."""
    known = facts.parameters
    return bool(known.total and known.trainable and known.trainable < 0.5 * known.total)


def _is_nothing(history: History, facts: ModelFacts) -> bool:
    so_far = judgement(history, facts)
    if so_far.has_learned:
        return False
    if math.isfinite(so_far.skill.value):
        held = generalisation(history, facts)
        # Fine-tuning may start far above a constant guess, and be on its way.
        rests = _rests(data_losses(history, facts), so_far)
        if so_far.is_falling and so_far.fall > _ON_ITS_WAY and not rests:
            return False
        # A tenth is little, unless just as much is gained on other data.
        is_little = so_far.skill.high < SKILL and not (held and held.is_good)
        return is_little or (so_far.is_flat and so_far.skill.value < 0.5 * SKILL)
    # A signed loss, such as that of a policy or an adversary, need not fall.
    is_judged = not so_far.is_signed and so_far.word is not Word.GOT_WORSE
    return so_far.is_idle or (is_judged and so_far.is_nothing)


def _rests(losses: Losses, so_far: Judgement) -> bool:
    """Whether the loss has fallen to that of the constant guess, and no further."""
    newest = losses.last(max(so_far.losses // 3, 10))
    half = newest.size // 2
    fall = float(np.nanmean(newest[:half]) - np.nanmean(newest[half:]))
    return abs(so_far.skill.value) < 0.5 * SKILL and fall < 0.02 * abs(so_far.now.value)


def _is_memory(history: History, facts: ModelFacts, least: float) -> bool:
    held, known = generalisation(history, facts), validations(history, facts)
    if held is None or held.is_good or held.since is not None or Kind.TARGET not in history:
        return False
    if 0 < (len(history.epochs) or len(known)) < least:
        return False
    losses = [each.loss for each in known]
    # It may only be late.
    if losses and losses[-1] <= min(losses) and losses[-1] < 0.97 * losses[0]:
        return False
    so_far = judgement(history, facts)
    is_moving = bool(losses) and so_far.has_moved and so_far.skill.low > 0.5 * SKILL
    return so_far.has_learned or is_moving
