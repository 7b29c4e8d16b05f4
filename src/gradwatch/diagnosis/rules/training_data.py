"""Inputs of an unsuitable scale, and data that is not shuffled."""

import math
import re

import numpy as np

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.chance import chance_level
from gradwatch.diagnosis.finding import Severity, Symptom, Symptoms
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.judgement import judgement
from gradwatch.diagnosis.rule import Limits, Threshold, rule
from gradwatch.diagnosis.value_table import ValueTable
from gradwatch.diagnosis.vocabulary import LossKind, loss_kind

# Layers that accept any scale, or take integers as identifiers.
_ACCEPTS_ANY = re.compile(
    r"embed|norm|rescal|discret|hash|lookup|vector|encod|resiz|crop", re.IGNORECASE
)
# A layer that multiplies by a number that it is given; one that learns the scale is none.
_SCALES = re.compile(r"Rescaling")
_SAME, _PER_CLASS = 40, 3
"""Steps that were all given the same batch, and its samples for each class, which are too few."""
_NORMALIZES = re.compile(r"Norm")
_LOOKS_UP = re.compile(r"Embedding(Bag)?")


@rule(
    "input-scale",
    remedy=(
        "Scale the inputs to about 1: subtract the mean and divide by the standard deviation, or "
        "put keras.layers.Normalization or Rescaling first."
    ),
    thresholds={
        "large": Threshold(100.0, "RMS of the inputs; initializations expect about 1"),
        "small": Threshold(1e-4, "RMS of the inputs"),
        "small without progress": Threshold(0.01, "RMS of the inputs, if nothing is learned"),
        "losses without progress": Threshold(100, "before it is said that nothing is learned"),
        "losses": Threshold(100, "within which a loss that is lost shows that they are too large"),
        "huge": Threshold(1e4, "RMS of the inputs; reported at once, unless the loss has halved"),
    },
    needs=[Kind.INPUT],
)
def input_scale(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """The inputs are far from 1 in size, no layer scales them, and the loss is flat."""
    first = facts.first_layer
    table, places = history[Kind.INPUT], list(range(len(history[Kind.INPUT].sites)))
    if first is not None and _SCALES.fullmatch(first.class_name or ""):
        # What it returns has the scale that the next layers get.
        table = history[Kind.OUTPUT]
        places = [i for i, site in enumerate(table.sites) if site.layer == first.path]
    elif first is not None and _ACCEPTS_ANY.search(first.class_name or ""):
        # What is looked up are indices; other inputs go elsewhere.
        if not _LOOKS_UP.fullmatch(first.class_name or ""):
            return
        places = [i for i in places if not _may_be_indices(table, i)]
    if table.measured < 3 or not places:
        return
    sites = [table.sites[i] for i in places]
    sizes = np.median(table.statistic("rms", 3)[:, places], axis=0)
    large = sizes > limits.per_site("large", sites)
    so_far = judgement(history, facts)
    is_nothing = so_far.is_nothing and so_far.losses >= limits["losses without progress"]
    name = "small without progress" if is_nothing else "small"
    strange = large | ((sizes < limits.per_site(name, sites)) & (sizes > 0))
    if not strange.any():
        return
    worst = int(np.argmax(np.where(strange, np.abs(np.log(np.maximum(sizes, 1e-300))), -1.0)))
    # Integers that identify something, such as words: their size means nothing.
    if first is None and _may_be_indices(table, places[worst]):
        return
    is_huge = sizes[worst] > limits["huge"] and not so_far.has_learned
    if any(_NORMALIZES.search(layer.class_name or "") for layer in facts.layers):
        # It may be what gets the inputs that are not looked up.
        is_huge &= first is None or not _LOOKS_UP.fullmatch(first.class_name or "")
    is_lost = bool(np.any(~np.isfinite(history.losses.values[: int(limits["losses"])])))
    if not (so_far.is_flat or is_huge or (is_lost and large[worst])):
        return
    yield Symptom(
        title=f"The inputs have the wrong scale: their RMS is {sizes[worst]:.3g}.",
        evidence={
            "RMS": float(sizes[worst]),
            "smallest": float(table.latest("min")[places[worst]]),
            "largest": float(table.latest("max")[places[worst]]),
        },
        sites=[site for site, is_odd in zip(sites, strange, strict=True) if is_odd],
        # A NaN that follows from them would hide what begins after it.
        since=history.first_step if is_lost else table.since(3),
    )


@rule(
    "unshuffled-data",
    remedy="Shuffle the data: the model forgets each class while it learns the next one.",
    thresholds={
        "share": Threshold(0.5, "of the measured steps whose targets are all the same"),
        "measured steps": Threshold(8, "one batch may have one class by chance"),
        "targets": Threshold(8, "in a batch; fewer are often all the same"),
        "losses": Threshold(200, "before the training has ended; at first, all networks forget"),
        "forgotten": Threshold(0.05, "of the newest losses that are above a constant guess's"),
    },
)
def unshuffled_data(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """Most batches have a single target value, which differs from batch to batch."""
    table = history[Kind.TARGET]
    count = int(limits["measured steps"])
    if _is_one_batch(history, facts, count):
        yield Symptom(
            title="All batches are the same: the model sees nothing else.",
            evidence={"measured steps": len(table)},
            sites=[*history[Kind.INPUT].sites, *table.sites],
            since=history.first_step,
            severity=Severity.WARNING,
            remedy="Check what the generator, or the loop over the data, returns at each step.",
            about="one batch",
        )
    if len(table) < count or len(table.sites) != 1:
        return
    low, high = table.column("min", 0, count), table.column("max", 0, count)
    is_single = low == high
    same = float(np.mean(is_single))
    if same < limits["share"] or table.column("count", 0, 1)[0] < limits["targets"]:
        return
    # Of a rare class, most batches have none.
    if np.ptp(low[is_single]) == 0:
        return
    is_harm = _forgets(history, facts, limits)
    yield Symptom(
        title=f"The data is not shuffled: {same:.0%} of the batches have a single target value.",
        evidence={"smallest target": float(low.min()), "largest target": float(high.max())},
        sites=list(table.sites),
        since=table.since(count),
        severity=Severity.WARNING if is_harm else Severity.INFO,
    )


def _is_one_batch(history: History, facts: ModelFacts, count: int) -> bool:
    """Whether the steps of an epoch, of which there are several, were given the same batch.

    Where epochs are not known, a batch may be all there is, unless it is too small for that.
    """
    tables = history[Kind.INPUT], history[Kind.TARGET]
    epochs = history.epochs
    if not epochs:
        return _is_no_data_set(history, facts)
    if epochs[0].step - history.first_step + 1 < count:
        return False
    newest = [table.rows(count) for table in tables]
    return all(
        len(rows) == count
        and table.steps[-count] != table.steps[-1]
        and bool(np.all(rows[0] == rows[-1]) and np.all(rows == rows[0]))
        and bool(np.any(table.latest("min") < table.latest("max")))
        for rows, table in zip(newest, tables, strict=True)
    )


def _is_no_data_set(history: History, facts: ModelFacts) -> bool:
    """Whether a loop was given the same few samples all the time, too few for so many classes.

    A table of truth values is as small; its inputs are whole numbers.
    """
    tables, last = (history[Kind.INPUT], history[Kind.TARGET]), facts.last_layer
    if loss_kind(facts.loss.name) is not LossKind.SPARSE or last is None or not last.units:
        return False
    if min(map(len, tables)) < _SAME or len(history.losses) < _SAME or not history.has_ended:
        return False
    samples, totals = tables[1].column("count", 0, 1)[0], tables[0].column("sum", 0, 1)
    if samples > _PER_CLASS * last.units or np.all(totals == np.round(totals)):
        return False
    rows = [table.rows(len(table)) for table in tables]
    return all(bool(np.all(each == each[0])) for each in rows)


def _forgets(history: History, facts: ModelFacts, limits: Limits) -> bool:
    """Whether a batch of another class is still a surprise, late in the training."""
    losses, chance = history.losses, chance_level(history, facts)
    if not (history.has_ended or len(losses) >= limits["losses"]):
        return False
    newest = losses.last(max(len(losses) // 3, 1))
    is_worse = newest > chance if math.isfinite(chance) else newest > losses.initial
    return bool(is_worse.mean() > limits["forgotten"])


def _may_be_indices(table: ValueTable, column: int) -> bool:
    """Whether all inputs so far could be indices: at least 0, with whole sums."""
    low, total = table.column("min", column, 8), table.column("sum", column, 8)
    return bool(np.all(low >= 0) and np.all(total == np.round(total)))
