"""Asking the rules, step by step, live and after the fact."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, TypeAlias

import numpy as np

import gradwatch.diagnosis.across_ranks
import gradwatch.diagnosis.rules  # noqa: F401  (declares them)
from gradwatch.core import KINDS, Kind, ModelFacts, Reading
from gradwatch.diagnosis.across_ranks.rank_rule import RANK_RULES, RankData, RankSymptom
from gradwatch.diagnosis.finding import Finding, Severity
from gradwatch.diagnosis.group_findings import GroupFindings
from gradwatch.diagnosis.limits import Limits
from gradwatch.diagnosis.rule import RULES, Rule
from gradwatch.diagnosis.silence import Silence, without_silenced

Thresholds: TypeAlias = Mapping[str, Mapping[str, Any]]
"""By rule: thresholds by name; or, under a selector, thresholds for these sites."""

_ASK_EVERY = 5
"""Of steps of which only the loss is known: the rules about the loss go by medians."""


class Diagnosis:
    """Diagnoses a training run while it goes on, or afterwards from what was recorded.

    Feed it what becomes known, in the order of the steps; each call returns what was newly
    found. All of it is in `findings`.

    Args:
        facts: what is known of the model; rules that need what is unknown stay silent.
        rules: which rules to ask, by name; all if not given.
        thresholds: for a rule, other thresholds than its own:
            `{"dead-units": {"warn share": 0.7, "conv*": {"warn share": 0.9}}}`.
        silence: what not to report, see `gradwatch.diagnosis.silence`.
        say: told, in words, when a rule fails; it is then switched off.

    Raises:
        ValueError: there is no such rule or threshold.

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
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.facts = facts or ModelFacts()
        self.silences = [silence] if isinstance(silence, Silence) else list(silence)
        self._say = say
        # What is not finite is asked for first: it explains all else.
        wished = [*RULES, *RANK_RULES] if rules is None else list(rules)
        names = sorted(wished, key=lambda name: name != "non-finite")
        settings = thresholds or {}
        for name in [*names, *settings, *(each.rule for each in self.silences)]:
            _require_known(name)
        self._rules, self._rank_rules = (
            [
                (known[name], _limits(known[name], settings.get(name, {})))
                for name in names
                if name in known
            ]
            for known in (RULES, RANK_RULES)
        )
        self._cases: dict[str, GroupFindings] = {}
        self._losses_unasked = 0

    @property
    def findings(self) -> list[Finding]:
        """All findings so far, open and closed, the worst first, then the earliest."""
        found = [finding for case in self._cases.values() for finding in case.findings]
        return sorted(found, key=lambda f: (bool(f.explained_by), -f.severity.rank, f.detected))

    @property
    def alarms(self) -> list[Finding]:
        """Those that are warnings or errors, and not explained by another one."""
        return [finding for finding in self.findings if finding.is_alarm]

    def worst(self) -> Severity | None:
        """The severity of the worst finding that is open; None without one."""
        still = [f.severity for f in self.findings if f.is_open and not f.explained_by]
        return max(still, key=lambda severity: severity.rank, default=None)

    def observe(self, reading: Reading) -> list[Finding]:
        """Take a step's measurements; returns what is newly found."""
        self._learn(reading)
        case = self._case(reading.group)
        case.history.add(reading)
        return self._ask(case)

    def observe_loss(self, step: int, value: float, group: str = "") -> list[Finding]:
        """Take the loss of a step, measured or not; returns what is newly found."""
        case = self._case(group)
        case.history.add_loss(step, value)
        self._losses_unasked += 1
        if math.isfinite(value) and self._losses_unasked < _ASK_EVERY:
            return []
        return self._ask(case)

    def observe_losses(self, losses: Iterable[tuple[int, float]], group: str = "") -> list[Finding]:
        """Take the losses of several steps and ask the rules once; returns what is newly found."""
        case = self._case(group)
        for step, value in losses:
            case.history.add_loss(step, value)
        return self._ask(case)

    def observe_epoch(
        self, epoch: int, step: int, logs: Mapping[str, float], group: str = ""
    ) -> list[Finding]:
        """Take what an epoch ended with; returns what is newly found."""
        case = self._case(group)
        case.history.add_epoch(epoch, step, logs)
        return self._ask(case)

    def observe_number(self, name: str, step: int, value: float, group: str = "") -> None:
        """Take a number of the training's own: its `learning_rate` or `loss_scale`."""
        self._case(group).history.add_number(name, step, value)

    def compare(self, ranks: RankData) -> list[Finding]:
        """Take what several ranks have recorded, after all else; returns what is newly found."""
        for rule, limits in self._rank_rules:
            try:
                found = list(rule.check(ranks, self.facts, limits) or ())
            except Exception as error:
                self._say_failed(rule, error)
                continue
            for symptom in found:
                left = without_silenced(rule.name, symptom, self.silences)
                if isinstance(left, RankSymptom):
                    self._case(left.group).note(rule, left)
        for case in self._cases.values():
            case.explain()
        return [finding for case in self._cases.values() for finding in case.new_findings()]

    def _learn(self, reading: Reading) -> None:
        """Take what a reading tells of the training, where that was not known."""
        if self.facts.batch_size is None:
            told = reading.numbers(Kind.SCALAR).get("batch_size")
            if told is not None and told >= 1:
                self.facts = replace(self.facts, batch_size=round(told))

    def _case(self, group: str) -> GroupFindings:
        if group not in self._cases:
            self._cases[group] = GroupFindings(group, self.facts.batch_size)
        return self._cases[group]

    def _ask(self, case: GroupFindings) -> list[Finding]:
        self._losses_unasked = 0
        fresh = {kind for kind in KINDS.values() if case.history.is_fresh(kind)}
        # Of numbers that are not finite, or all 0, rules need not take special care.
        with np.errstate(all="ignore"):
            for rule, limits in list(self._rules):
                if fresh.issuperset(rule.needs):
                    self._ask_one(case, rule, limits)
                if case.is_broken:
                    break
        case.explain()
        return case.new_findings()

    def _ask_one(self, case: GroupFindings, rule: Rule, limits: Limits) -> None:
        try:
            found = list(rule.check(case.history, self.facts, limits) or ())
        except Exception as error:
            self._switch_off(rule, error)
            return
        if self.silences:
            left = [without_silenced(rule.name, symptom, self.silences) for symptom in found]
            found = [symptom for symptom in left if symptom is not None]
        case.take(rule, found)

    def _switch_off(self, rule: Rule, error: Exception) -> None:
        self._rules = [each for each in self._rules if each[0] is not rule]
        self._say_failed(rule, error)

    def _say_failed(self, rule: Rule, error: Exception) -> None:
        self._say(
            f"The rule {rule.name!r} failed and is switched off for this run: "
            f"{type(error).__name__}: {error}"
        )


def _limits(rule: Rule, settings: Mapping[str, Any]) -> Limits:
    everywhere = {name: x for name, x in settings.items() if not isinstance(x, Mapping)}
    local = [(where, x) for where, x in settings.items() if isinstance(x, Mapping)]
    for _, values in local:
        rule.with_thresholds(values)
    values = rule.with_thresholds(everywhere).thresholds
    return Limits({name: threshold.value for name, threshold in values.items()}, local)


def _require_known(name: str) -> None:
    known = {*RULES, *RANK_RULES}
    if name not in known:
        near = get_close_matches(name, known, n=3) or sorted(known)
        raise ValueError(f"There is no rule {name!r}. There are: {', '.join(near)}.")
