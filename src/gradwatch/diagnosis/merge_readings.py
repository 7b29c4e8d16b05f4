"""Making one reading of what a loop told of a step in several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from gradwatch.core import Reading, Summary


def is_step_only(reading: Reading) -> bool:
    """Whether it tells only of the loss and the batch, not of the network."""
    return all(site.kind.is_number or site.kind.is_of_batch for site in reading.sites)


def are_one_step(reading: Reading, beside: Reading) -> bool:
    """Whether the second is of the same step, and tells what surrounds the network."""
    return (
        (reading.step, reading.group, reading.micro_batch)
        == (beside.step, beside.group, beside.micro_batch)
        and is_step_only(beside)
        and not is_step_only(reading)
    )


def merged(reading: Reading, beside: Reading) -> Reading:
    """Both as one reading.

    Example:

    >>> from gradwatch import Kind, Reading, Site, Summary
    >>> from gradwatch.diagnosis.merge_readings import merged
    >>> row = Summary.of([0.5]).pack()[None]
    >>> weights = Reading(3, 1, 0.0, [Site(Kind.WEIGHT, "a")], Summary.unpack(row))
    >>> loss = Reading(3, 1, 0.0, [Site(Kind.LOSS, "loss")], Summary.unpack(row))
    >>> [str(site) for site in merged(weights, loss).sites]
    ['weight a', 'loss loss']
    """
    rows = np.concatenate([reading.summary.pack(), beside.summary.pack()])
    return replace(
        reading, sites=[*reading.sites, *beside.sites], summary=Summary.unpack(rows), members={}
    )


def one_per_step(readings: Iterable[Reading]) -> Iterator[Reading]:
    """The readings, those joined that belong together."""
    held: Reading | None = None
    for reading in readings:
        if held is not None and are_one_step(held, reading):
            held = merged(held, reading)
            continue
        if held is not None:
            yield held
        held = reading
    if held is not None:
        yield held
