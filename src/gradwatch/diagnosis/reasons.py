"""Why nothing may have been learned: the most likely reasons first, each with its evidence."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.data_losses import added_share
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.judgement import judgement
from gradwatch.diagnosis.quantities import typical_ratios

_SMALL = 1e-4
"""Of update to weight; about 1e-3 is usual."""


def reasons(history: History, facts: ModelFacts) -> list[str]:
    """What speaks for each reason, in a clause each."""
    found = [
        text
        for look in (
            _warm_up,
            _odd_constants,
            _small_updates,
            _regularization,
            _shrinking_weights,
            _constant_outputs,
            _too_few_steps,
        )
        for text in look(history, facts)
    ]
    if found:
        return found
    return ["the gradients lead nowhere, as if the labels did not depend on the inputs"]


def numbered(found: Sequence[str]) -> dict[str, float | int | str]:
    """Reasons as evidence."""
    return {f"reason {i}": text for i, text in enumerate(found, 1)}


def _warm_up(history: History, facts: ModelFacts) -> Iterator[str]:
    rates = history.numbers.get("learning_rate", ())
    base = history.numbers.get("base_learning_rate")
    if len(rates) > 5 and base and rates[-1][1] > rates[-5][1] and rates[-1][1] < 0.2 * base[-1][1]:
        yield f"the learning rate is still rising, from {rates[0][1]:.1e} to {rates[-1][1]:.1e}"


def _odd_constants(history: History, facts: ModelFacts) -> Iterator[str]:
    """Constants of the optimizer with which hardly any network learns."""
    known = facts.optimizer
    if known.epsilon is not None and known.epsilon >= 1e-2:
        yield f"an epsilon of {known.epsilon:g} in the optimizer outweighs the gradients"
    if known.beta_1 is not None and known.beta_1 >= 0.999:
        yield f"with beta_1={known.beta_1:g}, a step averages the gradients of 1,000 steps or more"
    if known.momentum is not None and known.momentum >= 1.0:
        yield f"a momentum of {known.momentum:g} never slows down"
    for name, value in (("clip_norm", known.clip_norm), ("clip_value", known.clip_value)):
        if value is not None and value <= 1e-4:
            yield f"{name}={value:g} leaves hardly anything of the gradients"


def _small_updates(history: History, facts: ModelFacts) -> Iterator[str]:
    typical = typical_ratios(history, facts) if Kind.UPDATE in history else np.empty(0)
    typical = typical[np.isfinite(typical)]
    if typical.size and np.median(typical) < _SMALL:
        yield f"a step changes the weights by only {np.median(typical):.0e} of their size"


def _regularization(history: History, facts: ModelFacts) -> Iterator[str]:
    share = added_share(history, facts)
    if share > 0.5:
        yield f"regularization adds {share:.2g} times as much as the loss itself"


def _shrinking_weights(history: History, facts: ModelFacts) -> Iterator[str]:
    table = history[Kind.WEIGHT]
    if len(table) < 3:
        return
    norms = np.sqrt(np.nansum(table.statistic("sum_squares", len(table)), axis=1))
    if norms[0] > 0 and norms[-1] < 0.5 * norms[0]:
        yield f"the weights have shrunk to {norms[-1] / norms[0]:.0%} of their size"


def _constant_outputs(history: History, facts: ModelFacts) -> Iterator[str]:
    last, outputs, targets = facts.last_layer, history[Kind.OUTPUT], history[Kind.TARGET]
    if last is None or last.units != 1 or not len(targets):
        return
    for i, site in enumerate(outputs.sites):
        if site.layer == last.path:
            spread, wanted = outputs.latest("std")[i], targets.latest("std")[0]
            if spread < 0.02 * wanted:
                yield f"the outputs hardly differ: by {spread:.1e}, the targets by {wanted:.1e}"


def _too_few_steps(history: History, facts: ModelFacts) -> Iterator[str]:
    so_far = judgement(history, facts)
    if not so_far.is_falling or not so_far.slope > 0:
        return
    aim = 0.5 * so_far.chance.value if so_far.chance.value > 0 else 0.5 * so_far.now.value
    more = (so_far.now.value - aim) / so_far.slope
    if math.isfinite(more) and more > history.step:
        yield f"at this rate, half of the loss would take {more:,.0f} steps more"
