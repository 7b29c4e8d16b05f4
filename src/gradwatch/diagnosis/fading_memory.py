"""Plain recurrent cells in which nothing lasts as long as their sequences are."""

import math
from collections.abc import Iterator

import numpy as np

from gradwatch.core import Kind, ModelFacts, Site
from gradwatch.diagnosis.history import History

_PLAIN = frozenset({"RNN", "SimpleRNN"})
_RECURRENT = ("recurrent_kernel", "weight_hh_l0")
_CALLS = 20
"""Of a layer in a step, from which on it is taken for a cell that is written by hand."""


def fading_cells(history: History, facts: ModelFacts) -> Iterator[tuple[Site, float, int]]:
    """The recurrent weights, by how much a step of the sequence shrinks a signal, and its steps.

    Of random weights, that is their RMS times the root of their units; tanh only shrinks it more.
    """
    weights = history[Kind.WEIGHT]
    if not len(weights):
        return
    sizes, counts = weights.latest("rms"), weights.latest("count")
    for i, site in enumerate(weights.sites):
        units = math.isqrt(int(np.nan_to_num(counts[i])))
        if units < 2 or units * units != counts[i]:
            continue
        steps = _steps(history, facts, site, units)
        if steps > 1:
            yield site, float(sizes[i]) * math.sqrt(units), steps


def _steps(history: History, facts: ModelFacts, site: Site, units: int) -> int:
    """How often a step applies these weights one after the other; 0 if it is not known."""
    outputs = history[Kind.OUTPUT]
    cell, _, name = site.path.rpartition("/")
    if name not in _RECURRENT:
        calls = sum(each.path.partition("@")[0] == cell for each in outputs.sites)
        return calls if calls >= _CALLS else 0
    plain = [i for i, x in enumerate(facts.layers) if x.class_name in _PLAIN]
    place = next((i for i in plain if f"{cell}/".startswith(f"{facts.layers[i].path}/")), None)
    if place is None:
        return 0
    samples = facts.batch_size or (history.numbers.get("batch_size") or [(0, 0.0)])[-1][1]
    inner = [i for i, x in enumerate(history[Kind.WEIGHT].sites) if x.layer == cell]
    given = [int(history[Kind.WEIGHT].latest("count")[i]) // units for i in inner]
    if not samples or not given:
        return 0
    # Of what it is given, or of what it returns at each step.
    known = dict(zip((x.layer for x in outputs.sites), outputs.latest("count"), strict=True))
    known_inputs = history[Kind.INPUT].latest("count") if Kind.INPUT in history else np.empty(0)
    before = next((x.path for x in facts.layers[place - 1 :: -1] if x.path in known), None)
    whole = [known.get(facts.layers[place].path, 0.0) / (samples * units)]
    elements = known[before] if place and before else known_inputs[0] if len(known_inputs) else 0.0
    whole.append(elements / (samples * given[0]))
    return next((round(x) for x in whole if x > 1 and x == round(x)), 0)
