"""Diagnoses recorded runs with the rules that run live."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from gradwatch.core import ModelFacts, Reading
from gradwatch.diagnosis import findings_file
from gradwatch.diagnosis.engine import Diagnosis, Thresholds
from gradwatch.diagnosis.finding import Finding, worst_first
from gradwatch.diagnosis.merge_readings import one_per_step
from gradwatch.diagnosis.rank_rule import RankData
from gradwatch.diagnosis.silence import Silence
from gradwatch.util import Json, say

if TYPE_CHECKING:
    from gradwatch.read import Run

_REPLICA = re.compile(r"(?:^|/)replica_\d+/")


class RecordedRun(Protocol):
    """A `gradwatch.read.Run`, or a wrapper of one.

    A wrapper without `sql` is diagnosed without comparing its ranks.
    """

    @property
    def facts(self) -> Mapping[str, Json]:
        """The content of `run.json`."""

    @property
    def path(self) -> Path:
        """The run directory."""

    def readings(self) -> Iterator[Reading]:
        """All readings, in the order of their steps."""


def diagnose(
    source: RecordedRun | Iterable[Reading],
    facts: ModelFacts | None = None,
    *,
    epochs: Iterable[tuple[int, int, Mapping[str, float]]] = (),
    rules: Iterable[str] | None = None,
    thresholds: Thresholds | None = None,
    silence: Sequence[Silence] | Silence = (),
    on_error: Callable[[str], None] = say,
) -> Diagnosis:
    """Diagnose a recorded run, or readings, as if live.

    Args:
        source: a run, opened by `gradwatch.open`; or readings in the order of their steps.
        facts: the known facts about the model; by default those recorded in the run.
        epochs: (epoch, its last step, its logs) in their order, if known.
        rules, thresholds, silence, on_error: see `Diagnosis`.

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
    No variable receives a gradient.
    """
    run = cast(RecordedRun, source) if hasattr(source, "readings") else None
    readings = cast("Iterable[Reading]", source) if run is None else run.readings()
    if facts is None:
        facts = ModelFacts() if run is None else _model_facts(run.facts)
    diagnosis = Diagnosis(
        facts, rules=rules, thresholds=thresholds, silence=silence, on_error=on_error
    )
    ended = sorted(epochs, key=lambda epoch: epoch[1])
    for reading in one_per_step(readings):
        while ended and ended[0][1] < reading.step:
            diagnosis.observe_epoch(*ended.pop(0))
        diagnosis.observe(reading)
    for epoch in ended:
        diagnosis.observe_epoch(*epoch)
    if hasattr(run, "sql") and _has_several(whole := cast("Run", run)):
        diagnosis.compare_ranks(RankData(whole, diagnosis.facts))
    return diagnosis


def findings_of(run: RecordedRun) -> list[Finding]:
    """The findings in a recorded run, and further ones that were made during training.

    Rules that were silenced during training stay silent. The worst findings come first.
    """
    found = diagnose(run, silence=list(_silences(run.facts))).findings
    known = {(finding.group, finding.rule) for finding in found}
    live = [f for f in findings_file.read(run.path) if (f.group, f.rule) not in known]
    return worst_first([*found, *live])


def _has_several(run: Run) -> bool:
    """Whether a run has several ranks, or replicas within one process."""
    return len(run.ranks) > 1 or any(_REPLICA.search(site.path) for site in run.sites())


def _model_facts(facts: Mapping[str, Json]) -> ModelFacts:
    fits = facts.get("fits") or [{}]
    model = facts.get("model") or (fits[-1].get("model") if isinstance(fits[-1], Mapping) else None)
    return ModelFacts.from_json(model or {})


def _silences(facts: Mapping[str, Json]) -> Iterator[Silence]:
    settings = facts.get("diagnose")
    for each in (settings.get("silences") or ()) if isinstance(settings, Mapping) else ():
        where = None if each["where"] == "everywhere" else each["where"]
        yield Silence(each["rule"], where, because=each["because"])
