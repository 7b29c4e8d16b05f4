"""Diagnoses recorded runs with the rules that run live."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from gradwatch.core import ModelFacts, Reading, SiteFilter
from gradwatch.diagnosis import findings_file
from gradwatch.diagnosis.engine import Diagnosis, Thresholds
from gradwatch.diagnosis.finding import Finding, worst_first
from gradwatch.diagnosis.rank_rule import RankData, all_rules
from gradwatch.diagnosis.sequencer import Sequencer
from gradwatch.diagnosis.silence import Silence
from gradwatch.diagnosis.verdict import Verdict
from gradwatch.util import Json, say, suggests_arguments

if TYPE_CHECKING:
    from gradwatch.read import Run

_REPLICA = re.compile(r"(?:^|/)replica_\d+/")
_QUICK_ROWS = 100_000
"""Runs of so many rows are replayed in less than half a second."""


class KnownFindings(NamedTuple):
    """Findings, worst first, whether the whole run has been diagnosed, and the verdict on it.

    None if it has not been diagnosed at all.
    """

    findings: list[Finding] | None
    is_complete: bool
    verdict: Verdict | None = None


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


@suggests_arguments(
    {"run": "source=", "rule": "rules=", "threshold": "thresholds=", "model": "facts="}
)
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
    readings = cast("Iterable[Reading]", source) if run is None else _seen(run)
    if facts is None:
        facts = ModelFacts() if run is None else _model_facts(run.facts)
    diagnosis = Diagnosis(
        facts, rules=rules, thresholds=thresholds, silence=silence, on_error=on_error
    )
    sequencer = Sequencer(diagnosis, begins=() if run is None else _first_steps(run.facts))
    ended = sorted(epochs, key=lambda epoch: epoch[1])
    for reading in readings:
        while ended and ended[0][1] < reading.step:
            sequencer.add_epoch(*ended.pop(0))
        sequencer.add(reading)
    for epoch in ended:
        sequencer.add_epoch(*epoch)
    # A run that goes on has not ended, and one without a status is all there is.
    sequencer.finish(has_ended=str(getattr(run, "status", "")) != "live")
    if hasattr(run, "sql") and _has_several(whole := cast("Run", run)):
        diagnosis.compare_ranks(RankData(whole, diagnosis.facts))
    return diagnosis


def findings_of(run: RecordedRun) -> list[Finding]:
    """The findings in a recorded run, the worst first; see `all_findings`."""
    return all_findings(run).findings or []


def all_findings(run: RecordedRun) -> KnownFindings:
    """The findings in a recorded run, further ones that were made during training, and the verdict.

    A run that was diagnosed from its first to its last step while it was recorded is not diagnosed
    again; else the settings of that time are used.
    """
    recorded = findings_file.read(run.path)
    if _covers(recorded, run):
        return KnownFindings(worst_first(recorded.findings), True, recorded.verdict)
    again = diagnose(run, **_settings(run.facts))
    known = {(finding.group, finding.rule) for finding in again.findings}
    live = [f for f in recorded.findings if (f.group, f.rule) not in known]
    return KnownFindings(worst_first([*again.findings, *live]), True, again.verdict)


def known_findings(run: Run, max_rows: int = _QUICK_ROWS) -> KnownFindings:
    """The findings that are known without reading a large run, of more than `max_rows`."""
    recorded = findings_file.read(run.path)
    if run.rows <= max_rows or _covers(recorded, run):
        return all_findings(run)
    is_diagnosed = bool(recorded.findings) or "diagnose" in run.facts
    found = worst_first(recorded.findings) if is_diagnosed else None
    return KnownFindings(found, False, recorded.verdict)


def _covers(recorded: findings_file.RecordedFindings, run: RecordedRun) -> bool:
    """Whether the diagnosis during training has seen all that a replay would see."""
    extent = recorded.extent
    if extent is None or not extent.is_whole or not hasattr(run, "sql"):
        return False
    whole = cast("Run", run)
    steps = whole.steps()
    is_all = steps.size and (extent.first_step, extent.last_step) == (steps[0], steps[-1])
    # Ranks are compared only when all of them have been recorded.
    return bool(is_all) and not _has_several(whole)


def _has_several(run: Run) -> bool:
    """Whether a run has several ranks, or replicas within one process."""
    return len(run.ranks) > 1 or any(_REPLICA.search(site.path) for site in run.sites())


def _model_facts(facts: Mapping[str, Json]) -> ModelFacts:
    fits = facts.get("fits") or [{}]
    model = facts.get("model") or (fits[-1].get("model") if isinstance(fits[-1], Mapping) else None)
    return ModelFacts.from_json(model or {})


def _seen(run: RecordedRun) -> Iterator[Reading]:
    """The readings without the tensors that were not seen, which are recorded as empty."""
    unseen = {(site["kind"], site["path"]) for site in run.facts.get("unseen") or ()}
    for reading in run.readings():
        empty = {
            site
            for site, count in zip(reading.sites, reading.summary.count, strict=True)
            if not count and (str(site.kind), site.path) in unseen
        }
        yield SiteFilter(empty.__contains__)(reading) if empty else reading


def _first_steps(facts: Mapping[str, Json]) -> list[int]:
    """The first step of each `fit`, or loop."""
    fits = facts.get("fits") or ()
    known = [fit.get("first_step") for fit in fits if isinstance(fit, Mapping)]
    return sorted(step for step in known if isinstance(step, int))


def _settings(facts: Mapping[str, Json]) -> dict[str, Any]:
    """The user's choices during training, as arguments of `diagnose`; without unknown rules."""
    told = facts.get("diagnose")
    if not isinstance(told, Mapping):
        return {}
    known = all_rules()
    rules, thresholds = told.get("rules"), told.get("thresholds")
    chosen: dict[str, Any] = {}
    for name, own in (thresholds if isinstance(thresholds, Mapping) else {}).items():
        # One that this version has not.
        with suppress(KeyError, TypeError, ValueError, AttributeError):
            known[name].limits(own)
            chosen[name] = own
    silences = told.get("silences") or ()
    return {
        "rules": [r for r in rules if r in known] if isinstance(rules, list) else None,
        "thresholds": chosen,
        "silence": [
            Silence(
                each["rule"],
                None if each["where"] == "everywhere" else each["where"],
                because=each["because"],
            )
            for each in silences
            if each["rule"] in known
        ],
    }
