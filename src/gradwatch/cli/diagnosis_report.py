"""The result of a diagnosis: a report and an exit code."""

from collections.abc import Sequence
from typing import Any

from gradwatch.cli.output import echo, style
from gradwatch.diagnosis import (
    Finding,
    Severity,
    Verdict,
    counted_alarms,
    facts_of_rules,
    how_to_read_more,
    worst_first,
)
from gradwatch.util import printable

HEALTHY, WARNINGS, ERRORS = 0, 1, 2
_NAMES = {HEALTHY: "healthy", WARNINGS: "warnings", ERRORS: "errors"}
_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}


def exit_code(findings: Sequence[Finding], strict: bool) -> int:
    """The exit code: 2 with an error, 1 with only warnings if `strict`, else 0."""
    severities = {finding.severity for finding in findings if finding.is_alarm}
    if Severity.ERROR in severities:
        return ERRORS
    return WARNINGS if strict and Severity.WARNING in severities else HEALTHY


def facts(
    findings: Sequence[Finding], strict: bool, came_to: Verdict | None = None
) -> dict[str, Any]:
    """Findings, those that others explain last, their rules and the verdict, for JSON."""
    return {
        "verdict": _NAMES[exit_code(findings, strict)],
        "findings": [finding.facts() for finding in findings],
        "rules": facts_of_rules(findings),
        "learning": None if came_to is None else came_to.facts(),
    }


def print_report(
    name: str, findings: Sequence[Finding], extent: str, came_to: Verdict | None = None
) -> None:
    """Print the findings, the worst first; `extent` says how much was diagnosed."""
    alarms = [finding for finding in findings if finding.is_alarm]
    notes = [f for f in findings if not f.is_alarm and not f.explained_by]
    colour = _COLOURS[worst_first(alarms)[0].severity] if alarms else "green"
    verdict = ", ".join(counted_alarms(findings)) or "healthy"
    echo(f"{printable(name)}: {style(verdict, colour)} ({extent})")
    if came_to is not None and came_to.is_known:
        echo(f"verdict: {came_to.text()}")
    for finding in [*alarms, *notes]:
        first, *rest = finding.text().split("\n")
        word, colon, title = first.partition(":")
        echo(f"\n{style(word, _COLOURS[finding.severity])}{colon}{title}")
        for line in rest:
            echo(line)
        explained = [f for f in findings if f.explained_by == finding.rule]
        for each in explained if finding.is_alarm else ():
            echo(f"  so also: {printable(each.title)} [{each.rule}]")
    if alarms:
        echo(f"\n{printable(how_to_read_more(alarms[0]))}")
