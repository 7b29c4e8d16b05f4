"""What else was unusual in the step of a spike, or right after it."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import SAMPLE_MEDIAN, Kind, ModelFacts, Site, worst_in
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.network_order import LayerOrder
from gradwatch.diagnosis.spikes import Spike
from gradwatch.diagnosis.value_table import ValueTable

_BEFORE = 16
"""Measured steps before the spike to compare with, at most."""
_FEWEST = 3
_AFTER = 25
"""Steps after the spike that still tell of it."""
_UNUSUAL = 3.0
"""Times the largest number before; batches differ by less."""
_RISE = 1.5
"""Of the learning rate, between two measured steps; schedules change it by less."""
_OTHER_WEIGHTS = 0.5
"""Of the norm of a layer's weights: a change that no single update makes."""

Moved = tuple[str, list[Site], dict[str, float | str]]


class _Unusual(NamedTuple):
    """A number of a site or layer, and the largest of those before the spike."""

    place: int
    now: float
    before: float

    @property
    def factor(self) -> float:
        return self.now / self.before if self.before > 0 else np.inf


def rate_rise(history: History, spike: Spike) -> dict[str, float]:
    """The learning rate before and after, if it has risen with the spike."""
    known = history.numbers.get("learning_rate", [])
    for (_, old), (step, new) in pairwise(known):
        near = spike.before - 1 <= step <= spike.step + _AFTER
        if near and old > 0 and new >= _RISE * old:
            return {"learning rate before": old, "learning rate": new}
    return {}


def overwritten(history: History, step: int) -> tuple[str, list[Site]]:
    """The layer whose weights have become others about this step by no update; "" if none has."""
    table, found = history[Kind.WEIGHT], _other_weights(history, step)
    if not found:
        return "", []
    name = table.layers[_largest(found).place]
    return name, [site for site in table.sites if site.layer == name]


def what_moved(history: History, facts: ModelFacts, spike: Spike) -> Moved:
    """The layer that moved first, the sites that show it, and the numbers."""
    if history.step <= spike.step + _AFTER:
        spike.moved = _moved(history, facts, spike)
    return spike.moved


def _moved(history: History, facts: ModelFacts, spike: Spike) -> Moved:
    evidence: dict[str, float | str] = {}
    numbers = history.samples.get(spike.step, {})
    spike.samples = tuple(worst_in(numbers))
    spike.sample_median = numbers.get(SAMPLE_MEDIAN, np.nan)
    for sample in spike.samples:
        evidence[f"loss of {sample}"] = sample.loss
    if spike.samples:
        evidence["median loss of the samples"] = spike.sample_median
    sites: list[Site] = []
    for kind in (Kind.INPUT, Kind.TARGET):
        for site, name, now, before in _odd_batch(history[kind], spike):
            evidence[f"{name} of {site.path}"] = now
            evidence[f"usual {name} of {site.path}"] = before
            sites.append(site)
    layer = ""
    for kind, statistic in ((Kind.WEIGHT, "weights"), (Kind.OUTPUT, "outputs"),
                            (Kind.GRADIENT, "gradient"), (Kind.UPDATE, "update")):  # fmt: skip
        table = history[kind]
        found = _other_weights(history, spike.step) if kind is Kind.WEIGHT else _layer(table, spike)
        if not found:
            continue
        first = _first(table, facts, found) if kind is Kind.OUTPUT else _largest(found)
        name = table.layers[first.place]
        layer = layer or name
        if name == layer or kind is Kind.GRADIENT:
            evidence[f"{statistic} of {name}"] = first.now
            evidence[f"usual {statistic} of {name}"] = first.before
            sites += [site for site in table.sites if site.layer == name][:1]
    return layer, sites, evidence


def _odd_batch(table: ValueTable, spike: Spike) -> Iterator[tuple[Site, str, float, float]]:
    """What sets the batch of the step apart from those before it, if it was measured."""
    now, earlier = _rows(table, spike.step, exact=True)
    if now is None:
        return
    for place, site in enumerate(table.sites):
        for name in ("linf", "std"):
            values = table.statistic(name, len(table))[:, place]
            usual = float(np.nanmax(values[earlier]))
            if np.isfinite(usual) and values[now] > _UNUSUAL * usual > 0:
                yield site, _SPOKEN[name], float(values[now]), usual
                break


_SPOKEN = {"linf": "largest magnitude", "std": "standard deviation"}


def _layer(table: ValueTable, spike: Spike) -> list[_Unusual]:
    """The layers whose norm is far above those before."""
    now, earlier = _rows(table, spike.step, exact=table.kind is Kind.OUTPUT)
    if now is None:
        return []
    norms = table.l2_by_layer(len(table))
    usual = np.nanmax(norms[earlier], axis=0)
    unusual = np.flatnonzero((norms[now] > _UNUSUAL * usual) & (usual > 0))
    return [_Unusual(int(i), float(norms[now, i]), float(usual[i])) for i in unusual]


def _other_weights(history: History, step: int) -> list[_Unusual]:
    """The layers whose weights have become others, by no update."""
    table, updates = history[Kind.WEIGHT], history[Kind.UPDATE]
    now, earlier = _rows(table, step, exact=False)
    if now is None:
        return []
    norms = table.l2_by_layer(len(table))
    then = norms[earlier[-1]]
    changes = np.abs(norms[now] - then)
    is_explained = np.zeros(changes.shape, bool)
    at, _ = _rows(updates, step, exact=False)
    if at is not None and int(updates.steps[at]) == int(table.steps[now]):
        largest = dict(zip(updates.layers, updates.l2_by_layer(len(updates))[at], strict=True))
        moved = np.array([largest.get(layer, 0.0) for layer in table.layers])
        is_explained = np.nan_to_num(moved) > 0.5 * changes
    chosen = np.flatnonzero((changes > _OTHER_WEIGHTS * then) & (then > 0) & ~is_explained)
    if not chosen.size:
        chosen = _replaced(history, now, int(earlier[-1]))
    return [_Unusual(int(i), float(norms[now, i]), float(then[i])) for i in chosen]


def _replaced(history: History, now: int, then: int) -> NDArray[np.intp]:
    """The layer whose largest or smallest weight has changed further than all updates reach.

    So do weights that are initialized anew, whose norm stays what it was.
    """
    table, updates = history[Kind.WEIGHT], history[Kind.UPDATE]
    if not len(updates):
        return np.empty(0, np.intp)
    reach = np.nanmax(updates.statistic("linf", len(updates)), axis=0, initial=0.0)
    steps = int(table.steps[now] - table.steps[then])
    known = dict(zip((site.path for site in updates.sites), steps * reach, strict=True))
    reached = np.array([known.get(site.path, 0.0) for site in table.sites])
    ends = [table.statistic(name, len(table)) for name in ("min", "max")]
    change = np.max([np.abs(end[now] - end[then]) for end in ends], axis=0)
    beyond = np.where(reached > 0, change / np.where(reached > 0, reached, 1.0), 0.0)
    first = int(np.nanargmax(beyond))
    chosen = [table.layer_index[first]] if beyond[first] > _UNUSUAL else []
    return np.array(chosen, np.intp)


def _rows(table: ValueTable, step: int, exact: bool) -> tuple[int | None, NDArray[np.intp]]:
    """Of the kept steps, the one that shows a spike in `step`, if any, and those before."""
    steps = table.steps
    earlier = np.flatnonzero(steps < step)[-_BEFORE:]
    now = int(np.searchsorted(steps, step))
    last = step if exact else step + _AFTER
    if now == steps.size or int(steps[now]) > last or earlier.size < _FEWEST:
        return None, earlier
    return now, earlier


def _first(table: ValueTable, facts: ModelFacts, found: list[_Unusual]) -> _Unusual:
    """The one that the step computes first."""
    order = LayerOrder(facts.layers, table.layers)
    return min(found, key=lambda each: order.rank(table.layers[each.place]))


def _largest(found: list[_Unusual]) -> _Unusual:
    return max(found, key=lambda each: each.factor)
