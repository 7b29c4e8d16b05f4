"""Diagnosing what was recorded, with the rules that run live."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from gradwatch.core import ModelFacts, Reading
from gradwatch.diagnosis import findings_file
from gradwatch.diagnosis.across_ranks.rank_rule import RankData
from gradwatch.diagnosis.engine import Diagnosis, Thresholds
from gradwatch.diagnosis.finding import Finding
from gradwatch.diagnosis.merge_readings import one_per_step
from gradwatch.diagnosis.silence import Silence
from gradwatch.diagnosis.silence import silence as make_silence

_OF_REPLICA = re.compile(r"(?:^|/)replica_\d+/")


class ReplayableRun(Protocol):
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
    source: ReplayableRun | Iterable[Reading],
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
    for reading in one_per_step(_readings(source)):
        while ended and ended[0][1] < reading.step:
            diagnosis.observe_epoch(*ended.pop(0))
        diagnosis.observe(reading)
    for epoch in ended:
        diagnosis.observe_epoch(*epoch)
    ranks = _ranks_of(source, diagnosis.facts)
    if ranks is not None:
        diagnosis.compare(ranks)
    return diagnosis


def _ranks_of(source: Any, facts: ModelFacts) -> RankData | None:
    """What can be compared of a run of several ranks, or replicas of one process."""
    if not (hasattr(source, "sql") and hasattr(source, "ranks")):
        return None
    are_several = len(source.ranks) > 1
    if are_several or any(_OF_REPLICA.search(site.path) for site in source.sites()):
        return RankData(source, facts)
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


class StoredRun(ReplayableRun, Protocol):
    """A run that has a directory."""

    @property
    def path(self) -> Path:
        """Where it is."""


def findings_of(run: StoredRun) -> list[Finding]:
    """What the rules find in what is recorded, and what was found besides while training.

    Rules that the monitor was told to silence are silent here as well. The worst come
    first; those that others explain come last.
    """
    found = diagnose(run, silence=list(_silences(run.facts))).findings
    known = {(finding.group, finding.rule) for finding in found}
    live = [f for f in findings_file.read(run.path) if (f.group, f.rule) not in known]
    return in_order([*found, *live])


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """The worst first; what others explain last."""
    return sorted(findings, key=lambda f: (bool(f.explained_by), -f.severity.rank, f.detected))


def _silences(facts: Mapping[str, Any]) -> Iterable[Silence]:
    told = facts.get("diagnose")
    for each in (told.get("silences") or ()) if isinstance(told, Mapping) else ():
        where = None if each["where"] == "everywhere" else each["where"]
        yield make_silence(each["rule"], where, because=each["because"])
