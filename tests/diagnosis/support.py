"""Shared by the tests of diagnosis: synthetic courses of training, and real ones in torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

import gradwatch
from gradwatch import Kind, Reading, Site, Summary
from gradwatch.core import LayerFacts, LossFacts, OptimizerFacts
from gradwatch.diagnosis import Diagnosis, Finding, ModelFacts
from tests.distributed.patience import until_written

Arrays = Mapping[tuple[Kind, str], Any]


def reading(step: int, arrays: Arrays, loss: float | None = None, group: str = "") -> Reading:
    """The reading of a step, from arrays."""
    given = dict(arrays)
    if loss is not None:
        given[Kind.LOSS, "loss"] = [loss]
    rows = np.stack([Summary.of(np.asarray(x, np.float64)).pack() for x in given.values()])
    sites = [Site(kind, path) for kind, path in given]
    return Reading(step, 1, float(step), sites, Summary.unpack(rows), group=group)


def observed(
    readings: Iterable[Reading], facts: ModelFacts | None = None, **options: Any
) -> Diagnosis:
    """The diagnosis of readings; a rule that raises fails the test."""
    diagnosis = Diagnosis(facts, on_error=_fail, **options)
    for each in readings:
        diagnosis.observe(each)
    return diagnosis


def _fail(text: str) -> None:
    raise AssertionError(text)


def found(diagnosis: Diagnosis, rule: str) -> Finding:
    """The one finding of a rule."""
    of_rule = [finding for finding in diagnosis.findings if finding.rule == rule]
    assert len(of_rule) == 1, [finding.title for finding in diagnosis.findings]
    return of_rule[0]


def alarms(diagnosis: Diagnosis) -> list[str]:
    """The rules of all alarms, the worst first."""
    return [finding.rule for finding in diagnosis.alarms]


def course(
    steps: int, arrays: Callable[[int], Arrays], losses: Sequence[float] | float | None = None
) -> list[Reading]:
    """Readings of steps 1 to `steps`; the losses are a list, or stay at one level."""

    def loss(step: int) -> float | None:
        return losses[step - 1] if isinstance(losses, Sequence) else losses

    return [reading(step, arrays(step), loss(step)) for step in range(1, steps + 1)]


def falling(steps: int, start: float = 2.3) -> list[float]:
    """Losses of a training that goes well."""
    return [start * 0.95**step for step in range(steps)]


FLAT = 2.0
"""A loss that stays where it is."""


def kernels(values: Mapping[str, Any], kind: Kind = Kind.GRADIENT) -> Arrays:
    """A number for the kernel of each layer."""
    return {(kind, f"net/{name}/kernel"): [value] for name, value in values.items()}


def updates(ratio: float) -> Arrays:
    """Updates of four matrices, as a share of each."""
    names = ("a", "b", "c", "d")
    sizes = kernels(dict.fromkeys(names, 1.0), Kind.WEIGHT)
    return {**sizes, **kernels(dict.fromkeys(names, ratio), Kind.UPDATE)}


def given(x: Any, y: Sequence[float] = (0.0, 1.0)) -> Arrays:
    """A batch of inputs and targets, and a gradient."""
    batch = {(Kind.INPUT, "x"): x, (Kind.TARGET, "y"): list(y)}
    return {**batch, **kernels({"a": 1.0})}


def rules_of(
    readings: Iterable[Reading], facts: ModelFacts | None = None, **options: Any
) -> list[str]:
    """The rules of all findings that no other one explains."""
    return [f.rule for f in observed(readings, facts, **options).findings if not f.explained_by]


class Keep(gradwatch.Sink):
    """Keeps every reading."""

    def __init__(self) -> None:
        self.readings: list[Reading] = []

    def write(self, reading: Reading) -> None:
        self.readings.append(reading)


def trained(
    module: Any,
    loss: Callable[[Any, Any], Any],
    x: Any,
    y: Any,
    directory: Any,
    steps: int = 40,
    rate: float = 1e-2,
    optimizer: str = "SGD",
    batch: int = 64,
) -> list[Reading]:
    """The readings of a real training in torch, as `gradwatch.watch` records them."""
    import torch

    keep = Keep()
    stepper = getattr(torch.optim, optimizer)(module.parameters(), lr=rate)
    watches = [
        gradwatch.gradients(),
        gradwatch.updates(),
        gradwatch.outputs(per_unit=True),
        gradwatch.output_gradients(),
    ]
    monitor = gradwatch.watch(module, stepper, directory, every=1, watch=watches, sinks=[keep])
    samples = np.random.default_rng(0)
    for step in range(1, steps + 1):
        chosen = samples.integers(0, len(x), batch)
        stepper.zero_grad()
        value = loss(module(x[chosen]), y[chosen])
        value.backward()
        stepper.step()
        monitor.record(loss=value)
        if step % 20 == 0:  # Of steps as quick as these, some would be dropped.
            until_written(monitor)
    monitor.close()
    return keep.readings


def facts_of(
    layers: Sequence[tuple[str, str, str | None, int]],
    loss: str | None = None,
    *,
    from_logits: bool | None = None,
    optimizer: str | None = None,
    **others: Any,
) -> ModelFacts:
    """Facts of layers given as (path, class, activation, units); the last one is the output."""
    known = [LayerFacts(path, kind, activation, units) for path, kind, activation, units in layers]
    return ModelFacts(
        known,
        [known[-1].path] if known else [],
        LossFacts(loss, from_logits),
        OptimizerFacts(optimizer),
        **others,
    )
