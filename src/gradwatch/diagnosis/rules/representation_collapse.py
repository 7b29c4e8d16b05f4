"""Outputs that are nearly the same for all samples of a batch."""

import numpy as np

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.chance import SKILL
from gradwatch.diagnosis.finding import Symptom, Symptoms
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.judgement import Judgement, Word, judgement
from gradwatch.diagnosis.rule import Limits, Threshold, rule
from gradwatch.diagnosis.value_table import Array
from gradwatch.diagnosis.vocabulary import LossKind, loss_kind


@rule(
    "representation-collapse",
    remedy=(
        "The model can do without telling samples apart. Give it a reason: negative pairs, a "
        "stop-gradient with a predictor, a variance term; a smaller weight for the term that pulls "
        "everything together; fewer rounds of averaging."
    ),
    thresholds={
        "alike": Threshold(1e-5, "variation across the samples; rounding alone is about as much"),
        "steps": Threshold(20, "before outputs that are alike are more than an initialization"),
        "steps without an end": Threshold(500, "before it is said while training goes on"),
        "flat": Threshold(0.02, "variation across the samples, if nothing is learned"),
        "losses": Threshold(100, "before it is said that nothing is learned"),
        "collapsed": Threshold(0.1, "variation without targets; about 0.8 is usual"),
        "left": Threshold(0.25, "of the largest variation so far; the same"),
        "inputs": Threshold(0.1, "variation of inputs that differ"),
        "measured steps": Threshold(5, "one batch may be odd"),
        "unexplained": Threshold(0.15, "of the variation of the targets: 2 % of their variance"),
    },
)
def representation_collapse(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """The outputs are nearly the same for all samples of a batch, although these differ."""
    count = int(limits["measured steps"])
    if not any(name.endswith("output_variation") for name in history.numbers):
        return
    # A discriminator is to say the same of all that is genuine.
    if facts.loss.judges or (facts.loss.is_of_own_step and not facts.loss.is_through_others):
        return
    outputs, inputs_, targets = history[Kind.WEIGHT].cached_per_step(
        "variations",
        lambda: [_series(history, f"{name}_variation") for name in ("output", "input", "target")],
    )
    if outputs.size <= count or not inputs_.size or history.step < limits["steps"]:
        return
    now, inputs = outputs[-count:], float(np.median(inputs_[-count:]))
    wanted = float(np.median(targets[-count:])) if targets.size else 0.0
    so_far = judgement(history, facts)
    are_alike = bool(np.all(now < limits["alike"])) and not so_far.has_learned
    if are_alike and inputs < limits["alike"]:
        yield Symptom(
            title="All samples of a batch are the same, and so is what the model returns.",
            evidence={"variation of the inputs": inputs},
            since=history.first_step,
            remedy="Check how the inputs of a batch, or the noise that it starts from, are made.",
            about="inputs",
        )
    # Averages are often learned first, and differences later.
    is_late = history.has_ended or history.step >= limits["steps without an end"]
    if not is_late or not inputs > limits["inputs"]:
        return
    is_nothing = so_far.word is Word.LEARNED_NOTHING and so_far.losses >= limits["losses"]
    has_collapsed = are_alike or (is_nothing and bool(np.all(now < limits["flat"])))
    if _is_asked_for_nothing(history, facts, targets, wanted, limits):
        has_faded = now.max() < limits["left"] * outputs.max()
        has_collapsed |= bool(np.all(now < limits["collapsed"]) and has_faded)
    elif _is_comparable(facts, so_far) and wanted > limits["alike"]:
        has_collapsed |= bool(now.max() < limits["unexplained"] * wanted)
    if has_collapsed:
        yield Symptom(
            title="Representations collapse: the model returns nearly the same for all samples.",
            evidence={
                "variation of the outputs": float(np.median(now)),
                "largest variation so far": float(outputs.max()),
                "variation of the inputs": inputs,
                **({"variation of the targets": wanted} if targets.size else {}),
            },
            layer=facts.outputs[0] if len(facts.outputs) == 1 else "",
            since=history[Kind.WEIGHT].since(count),
        )


def _is_comparable(facts: ModelFacts, so_far: Judgement) -> bool:
    """Whether outputs are to vary as the targets do, in one of several losses at most.

    Logits have another mean than what they stand for: of rare events, a large one. That they hardly
    vary counts only if nothing is learned.
    """
    kind = loss_kind(facts.loss.name)
    is_of_values = kind is LossKind.BINARY and (
        facts.loss.from_logits is not True or so_far.skill.high < SKILL
    )
    return (kind is LossKind.REGRESSION or is_of_values) and facts.loss.rest != "terms"


def _is_asked_for_nothing(
    history: History, facts: ModelFacts, targets: Array, wanted: float, limits: Limits
) -> bool:
    """Whether no targets tell samples apart, or only such as fade with the outputs.

    Two views of a sample are compared, or a generator is to please a discriminator. What has one
    output without known targets may be meant to be the same for all: a policy, a distance.
    """
    if wanted > limits["alike"]:
        return bool(wanted < limits["left"] * targets.max())
    calls = _series(history, "module_calls")
    return bool(facts.loss.is_through_others or (calls.size and calls.max() > 1))


def _series(history: History, name: str) -> Array:
    """The numbers of this name, one for each kept measured step since the first of them."""
    known = (series for path, series in history.numbers.items() if path.rpartition("/")[2] == name)
    series = next(known, [])
    if not series:
        return np.empty(0)
    # Only changes are kept.
    again = int((history[Kind.WEIGHT].steps > series[-1][0]).sum())
    values: Array = np.array([value for _, value in series] + [series[-1][1]] * again)
    return np.asarray(values[np.isfinite(values)])
