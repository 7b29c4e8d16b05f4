"""Runs the rules step by step, live or on a recorded run."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import TypeAlias

import numpy as np

import gradwatch.diagnosis.rules  # noqa: F401  (declares them)
from gradwatch.core import Kind, ModelFacts, Reading
from gradwatch.diagnosis.finding import Finding, Severity, Symptom, worst_first
from gradwatch.diagnosis.group_findings import GroupFindings
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.judgement import judgement
from gradwatch.diagnosis.package_rules import load_package_rules
from gradwatch.diagnosis.precedence import LEFT_ALONE
from gradwatch.diagnosis.rank_rule import RANK_RULES, RankData, RankSymptom
from gradwatch.diagnosis.rule import RULES, Limits, Rule, ThresholdValues
from gradwatch.diagnosis.silence import Silence, apply_silences
from gradwatch.diagnosis.verdict import Verdict, verdict_on
from gradwatch.util import counted, say
from gradwatch.util.display import notebook

Thresholds: TypeAlias = Mapping[str, ThresholdValues]


class Diagnosis:
    """Diagnoses a training run, while it goes on or afterwards.

    Pass it everything that becomes known, in the order of the steps. Each call returns the new
    findings; `findings` has all of them.

    Args:
        facts: the known facts about the model; rules that need an unknown fact find nothing.
        rules: the names of the rules to run; all by default.
        thresholds: changed thresholds by rule:
            `{"dead-units": {"warn share": 0.7, "conv*": {"warn share": 0.9}}}`.
        silence: findings not to report, see `gradwatch.diagnosis.silence`.
        on_error: called with a message when a rule raises; that rule does not run again. It
            warns if not given.

    Raises:
        ValueError: a rule or threshold does not exist.

    Example:

    >>> import numpy as np
    >>> from gradwatch import Kind, Reading, Site, Summary
    >>> from gradwatch.diagnosis import Diagnosis
    >>> diagnosis = Diagnosis()
    >>> sites = [Site(Kind.OUTPUT, "net/log"), Site(Kind.LOSS, "loss")]
    >>> rows = np.stack([Summary.of(x).pack() for x in ([-np.inf, 0.5], [np.nan])])
    >>> [finding] = diagnosis.observe(Reading(4, 1, 0.0, sites, Summary.unpack(rows)))
    >>> print(finding.title)
    Inf in step 4, first in output net/log.
    """

    def __init__(
        self,
        facts: ModelFacts | None = None,
        *,
        rules: Iterable[str] | None = None,
        thresholds: Thresholds | None = None,
        silence: Sequence[Silence] | Silence = (),
        on_error: Callable[[str], None] = say,
    ) -> None:
        self.facts = facts or ModelFacts()
        self.silences = [silence] if isinstance(silence, Silence) else list(silence)
        self._on_error = on_error
        load_package_rules()
        chosen = [*RULES, *RANK_RULES] if rules is None else list(rules)
        # NaN explains everything else, but nothing about the inputs.
        first = {"input-scale": 0, "non-finite": 1}
        names = sorted(chosen, key=lambda name: (first.get(name, 2), name))
        changes = thresholds or {}
        for name in [*names, *changes, *(each.rule for each in self.silences)]:
            _require_known(name)
        self._rules, self._rank_rules = (
            [
                (known[name], known[name].limits(changes.get(name, {})))
                for name in names
                if name in known
            ]
            for known in (RULES, RANK_RULES)
        )
        self._groups: dict[str, GroupFindings] = {}
        self.is_paced = False
        """Whether the rules are asked more rarely the longer all is well, see `Pace`."""
        self.checks = 0
        """How often the rules have been asked."""

    @property
    def findings(self) -> list[Finding]:
        """All findings so far, open and closed, worst first."""
        return worst_first(f for group in self._groups.values() for f in group.findings)

    @property
    def alarms(self) -> list[Finding]:
        """The warnings and errors that no other finding explains."""
        return [finding for finding in self.findings if finding.is_alarm]

    @property
    def verdict(self) -> Verdict:
        """What the training has come to so far."""
        group = self._groups.get("")
        return Verdict() if group is None else verdict_on(group.history, self.facts.of_group(""))

    def __repr__(self) -> str:
        found = self.findings
        if not found:
            return "Diagnosis: no findings"
        title = f"Diagnosis: {counted(len(found), 'finding')}"
        return "\n".join([title, *(finding.text() for finding in found)])

    def _repr_html_(self) -> str:
        return notebook().diagnosis_html(self)

    def observe(self, reading: Reading) -> list[Finding]:
        """Add a step's measurements; returns the new findings."""
        if self.facts.batch_size is None:
            size = reading.numbers(Kind.SCALAR).get("batch_size")
            if size is not None and size >= 1:
                self.facts = replace(self.facts, batch_size=round(size))
                for each in self._groups.values():
                    each.set_batch_size(round(size))
        group = self._group(reading.group)
        group.history.add(reading)
        return self._run_rules_if_due(group)

    def observe_losses(self, losses: Iterable[tuple[int, float]], group: str = "") -> list[Finding]:
        """Add (step, loss) of steps that were not measured; returns the new findings."""
        own = self._group(group)
        for step, value in losses:
            own.history.add_loss(step, value)
        return self._run_rules_if_due(own, is_measured=False)

    def observe_epoch(
        self, epoch: int, step: int, logs: Mapping[str, float], group: str = ""
    ) -> list[Finding]:
        """Add the logs of an epoch that has ended; returns the new findings."""
        self._group(group).history.add_epoch(epoch, step, logs)
        return self._run_rules(self._group(group))

    def observe_metrics(self, step: int, values: Mapping[str, float], group: str = "") -> None:
        """Add numbers that a loop has reported of its own accord, such as its `val_loss`."""
        self._group(group).history.add_metrics(step, values)

    def observe_end(self) -> list[Finding]:
        """The training has ended, for now; returns the new findings."""
        found = []
        for group in self._groups.values():
            if group.pace.is_behind:
                found += self._run_rules(group)
            group.history.end()
            found += self._run_rules(group, at_end=True)
        return found

    def observe_number(self, name: str, step: int, value: float, group: str = "") -> None:
        """Add a number of the training itself: its `learning_rate` or `loss_scale`."""
        self._group(group).history.add_number(name, step, value)

    def observe_samples(self, step: int, numbers: Mapping[str, float], group: str = "") -> None:
        """Add what is known of the samples of a step's batch, by path."""
        self._group(group).history.add_samples(step, numbers)

    def compare_ranks(self, ranks: RankData) -> list[Finding]:
        """Compare the recordings of several ranks, after everything else is observed.

        Returns:
            The new findings.
        """
        for rule, limits in list(self._rank_rules):
            for symptom in self._symptoms(rule, ranks, limits, self.facts) or ():
                if isinstance(symptom, RankSymptom):
                    self._group(symptom.group).add_rank_symptom(rule, symptom)
        for group in self._groups.values():
            group.explain()
        return [finding for group in self._groups.values() for finding in group.new_findings()]

    def _group(self, name: str) -> GroupFindings:
        if name not in self._groups:
            self._groups[name] = GroupFindings(name, self.facts.batch_size)
        return self._groups[name]

    def _run_rules_if_due(self, group: GroupFindings, *, is_measured: bool = True) -> list[Finding]:
        if group.history.is_suspect:
            group.pace.alarm()
        if self.is_paced and not group.pace.is_due(group.history.step, is_measured=is_measured):
            return []
        found = self._run_rules(group)
        if found:
            group.pace.alarm()
        return found

    def _run_rules(self, group: GroupFindings, *, at_end: bool = False) -> list[Finding]:
        self.checks += 1
        group.pace.is_behind = False
        fresh: set[Kind] = set() if at_end else group.history.fresh_kinds()
        facts = self.facts.of_group(group.group)
        # Rules need no special care for numbers that are not finite, or all 0.
        with np.errstate(all="ignore"):
            for rule, limits in list(self._rules):
                if fresh.issuperset(rule.needs):
                    found = self._symptoms(rule, group.history, limits, facts)
                    if found is not None:
                        group.update(rule, _left_alone(rule, found, group.history, facts))
                if rule.name == "non-finite" and group.is_broken:
                    break
        group.explain()
        return group.new_findings()

    def _symptoms(
        self, rule: Rule, data: History | RankData, limits: Limits, facts: ModelFacts
    ) -> list[Symptom] | None:
        """The symptoms that a rule sees and no silence hides; None if the rule raised."""
        try:
            found = list(rule.check(data, facts, limits))
        except Exception as error:
            self._rules = [each for each in self._rules if each[0] is not rule]
            self._on_error(
                f"The rule {rule.name!r} failed and is switched off for this run: "
                f"{type(error).__name__}: {error}"
            )
            return None
        return apply_silences(rule.name, found, self.silences) if self.silences else found


def _left_alone(
    rule: Rule, found: list[Symptom], history: History, facts: ModelFacts
) -> list[Symptom]:
    """The symptoms; of a network that certainly learns, those of no consequence are an `info`."""
    if rule.name not in LEFT_ALONE or not found or not judgement(history, facts).is_proven:
        return found
    return [replace(symptom, severity=Severity.INFO) for symptom in found]


def _require_known(name: str) -> None:
    known = {*RULES, *RANK_RULES}
    if name not in known:
        near = get_close_matches(name, known, n=3) or sorted(known)
        raise ValueError(f"There is no rule {name!r}. There are: {', '.join(near)}.")
