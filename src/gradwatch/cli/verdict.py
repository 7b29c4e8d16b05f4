"""What a diagnosis comes to: a report, and an exit code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradwatch.cli.run_table import style
from gradwatch.cli.text import counted, echo, printable
from gradwatch.diagnosis import Finding, Severity

HEALTHY, WARNED, SICK = 0, 1, 2
_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}


def code_of(findings: Sequence[Finding], strict: bool) -> int:
    """The exit code: 2 with an error, 1 with a warning if asked to be strict, else 0.

    >>> from gradwatch.cli.verdict import code_of
    >>> from gradwatch.diagnosis.finding import Finding, Severity
    >>> warning = Finding("imbalance", Severity.WARNING, "One layer dwarfs the others.", 3, 5)
    >>> code_of([warning], strict=False), code_of([warning], strict=True), code_of([], True)
    (0, 1, 0)
    """
    severities = {finding.severity for finding in findings if finding.is_alarm}
    if Severity.ERROR in severities:
        return SICK
    return WARNED if strict and Severity.WARNING in severities else HEALTHY


def facts_of(findings: Sequence[Finding], strict: bool) -> dict[str, Any]:
    """The same for JSON; what others explain comes last."""
    return {
        "verdict": {HEALTHY: "healthy", WARNED: "warnings", SICK: "errors"}[
            code_of(findings, strict)
        ],
        "findings": [finding.facts() for finding in findings],
    }


def show(name: str, findings: Sequence[Finding], what: str) -> None:
    """Print a report.

    Args:
        name: of the run or script.
        findings: the worst first.
        what: what was looked at, in words.
    """
    alarms = [finding for finding in findings if finding.is_alarm]
    notes = [f for f in findings if not f.is_alarm and not f.explained_by]
    errors = sum(finding.severity is Severity.ERROR for finding in alarms)
    parts = [counted(errors, "error")] if errors else []
    if len(alarms) > errors:
        parts.append(counted(len(alarms) - errors, "warning"))
    verdict = style(", ".join(parts), fg="red" if errors else "yellow")
    if not alarms:
        verdict = style("healthy", fg="green")
    echo(f"{printable(name)}: {verdict} ({what})")
    for finding in [*alarms, *notes]:
        first, *rest = finding.text().split("\n")
        word, colon, title = first.partition(":")
        echo(f"\n{style(word, fg=_COLOURS[finding.severity])}{colon}{title}")
        for line in rest:
            echo(line)
        explained = [f for f in findings if f.explained_by == finding.rule]
        for each in explained if finding.is_alarm else ():
            echo(f"  so also: {printable(each.title)} [{each.rule}]")
