"""Diagnosing what was recorded, with the rules that run live."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from gradwatch.core import ModelFacts, Reading
from gradwatch.diagnosis.across_ranks.rank_rule import Ranks
from gradwatch.diagnosis.engine import Diagnosis, Thresholds
from gradwatch.diagnosis.joining import in_steps
from gradwatch.diagnosis.silence import Silence

_OF_REPLICA = re.compile(r"(?:^|/)replica_\d+/")


class Recorded(Protocol):
    """What is asked of a run: its steps, the readings of each, and what is known of its model.

    One that has `readings`, all of them in the order of steps, is asked for these instead. One of
    several `ranks` is asked by `sql` how they compare.
    """

    @property
    def facts(self) -> Mapping[str, Any]:
        """What `run.json` says."""

    def steps(self) -> Iterable[int]:
        """The steps of which anything is recorded, ascending."""

    def at(self, step: int) -> Sequence[Reading]:
        """What was recorded at a step."""


def diagnose(
    source: Recorded | Iterable[Reading],
    facts: ModelFacts | None = None,
    *,
    epochs: Iterable[tuple[int, int, Mapping[str, float]]] = (),
    rules: Iterable[str] | None = None,
    thresholds: Thresholds | None = None,
    silence: Sequence[Silence] | Silence = (),
    say: Callable[[str], None] = lambda text: None,
) -> Diagnosis:
    """Diagnose a recorded run, or readings, as would have been done live.

    Args:
        source: a run, by `gradwatch.open`; or readings in the order of their steps.
        facts: what is known of the model; of a run, what it has recorded of it if not given.
        epochs: (epoch, its last step, its logs), in their order, if they are known.
        rules, thresholds, silence, say: see `Diagnosis`.

    Returns:
        The diagnosis, with its `findings`.

    Example:

    >>> import numpy as np
    >>> from gradwatch import Kind, Reading, Site, Summary
    >>> from gradwatch.diagnosis import diagnose
    >>> def reading(step):
    ...     row = Summary.of([0.0, 0.0]).pack()[None]
    ...     return Reading(step, 1, 0.0, [Site(Kind.GRADIENT, "a/kernel")], Summary.unpack(row))
    >>> [finding] = diagnose(map(reading, range(1, 6))).findings
    >>> print(finding.title)
    No variable gets a gradient.
    """
    if facts is None:
        facts = _model_of(source)
    diagnosis = Diagnosis(facts, rules=rules, thresholds=thresholds, silence=silence, say=say)
    ended = sorted(epochs, key=lambda epoch: epoch[1])
    for reading in in_steps(_readings(source)):
        while ended and ended[0][1] < reading.step:
            diagnosis.observe_epoch(*ended.pop(0))
        diagnosis.observe(reading)
    for epoch in ended:
        diagnosis.observe_epoch(*epoch)
    ranks = _ranks_of(source, diagnosis.facts)
    if ranks is not None:
        diagnosis.compare(ranks)
    return diagnosis


def _ranks_of(source: Any, facts: ModelFacts) -> Ranks | None:
    """What can be compared of a run of several ranks, or replicas of one process."""
    if not (hasattr(source, "sql") and hasattr(source, "ranks")):
        return None
    are_several = len(source.ranks) > 1
    if are_several or any(_OF_REPLICA.search(site.path) for site in source.sites()):
        return Ranks(source, facts)
    return None


def _readings(source: Any) -> Iterator[Reading]:
    if hasattr(source, "readings"):
        yield from source.readings()
    elif hasattr(source, "at"):
        for step in source.steps():
            yield from source.at(int(step))
    else:
        yield from source


def _model_of(source: Any) -> ModelFacts:
    known = getattr(source, "facts", None)
    if not isinstance(known, Mapping):
        return ModelFacts()
    fits = known.get("fits") or [{}]
    model = known.get("model") or (fits[-1].get("model") if isinstance(fits[-1], Mapping) else None)
    return ModelFacts.from_json(model or {})
