"""The lines above the table of layers in `top`: the run, its numbers, its findings."""

from __future__ import annotations

import math
import textwrap
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gradwatch.core import Kind
from gradwatch.diagnosis import Finding, Severity
from gradwatch.read import Status
from gradwatch.util import compact, counted, duration, printable, shortened, when
from gradwatch.util.text_table import GAP
from gradwatch.view.data import BOOKKEEPING, RunProgress
from gradwatch.view.text import trend_bars

if TYPE_CHECKING:
    from rich.text import Text

NUMBERS = 3
"""How many losses and other numbers are shown at most."""
FINDINGS = 4
QUIET_SECONDS = 15
"""After so long without a new record, the header says so."""
_LABEL = 13
"""The width of `learning rate`."""
_INDENT = " " * (_LABEL + 1)
_LEAST_WIDTH = 20
_SEVERITY = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_NOT_SHOWN = {"batch_size", *BOOKKEEPING}


def header_lines(
    progress: RunProgress | None,
    findings: Sequence[Finding] | None,
    *,
    encoding: str,
    now: float | None,
    most_findings: int | None,
    width: int | None,
) -> list[Text]:
    """The lines; progress and findings are None before they are known.

    `now` is in seconds since 1970, by default the current time; `most_findings` is None for all,
    and `width`, at which the words of findings are wrapped, for lines of any length.
    """
    from rich.text import Text

    if progress is None:
        return [Text("Reading the run …")]
    lines = [_first_line(progress, findings, time.time() if now is None else now)]
    lines += _numbers(progress, encoding)
    if progress.cost:
        lines.append(_labelled("cost", progress.cost))
    if progress.ranks:
        lines.append(_labelled("ranks", progress.ranks, "red" if progress.is_rank_stopped else ""))
    if progress.damage:
        words = f"{counted(progress.damage, 'place')} cannot be read; see gradwatch verify"
        lines.append(_labelled("damage", words, "red"))
    if progress.lost_rows:
        lines.append(_labelled("lost", counted(progress.lost_rows, "row"), "red"))
    return [*lines, *_findings(findings, most_findings, width), Text("")]


def _first_line(progress: RunProgress, findings: Sequence[Finding] | None, now: float) -> Text:
    from rich.text import Text

    parts = ["no step yet" if progress.step is None else f"step {progress.step:,}"]
    if progress.epoch is not None:
        parts.append(f"epoch {progress.epoch:,}")
    rate = progress.steps_per_second
    if rate is not None:
        ended = "" if progress.status is Status.LIVE else " at the end"
        parts.append(f"{compact(rate)} steps/s{ended}")
    measured = counted(progress.measured_steps, "step")
    parts.append(f"{measured} measured in {duration(progress.duration)}")
    quiet = now - (progress.last_time or 0.0)
    health = progress.health(findings)
    line = Text.assemble((printable(progress.name), "bold"), GAP, str(progress.status), GAP)
    if findings is not None:
        line.append(str(health.condition), health.colour).append(GAP)
    line.append(" · ".join(parts))
    if progress.status is Status.LIVE and progress.last_time and quiet > QUIET_SECONDS:
        line.append(f" · nothing new for {duration(quiet)}", "yellow")
    return line


def _numbers(progress: RunProgress, encoding: str) -> list[Text]:
    kinds = (str(Kind.LOSS), str(Kind.SCALAR))
    entries = [e for e in progress.numbers if e["kind"] in kinds and e["path"] not in _NOT_SHOWN]
    # The loss first, then the learning rate.
    entries.sort(key=lambda e: (e["kind"] != Kind.LOSS, e["path"] != "learning_rate"))
    values = [compact(entry["value"]) for entry in entries[:NUMBERS]]
    size = max(map(len, values), default=0)
    lines = []
    for entry, value in zip(entries, values, strict=False):
        alarm = "" if math.isfinite(entry["value"]) else "bold red"
        line = _labelled(entry["path"].replace("_", " "), f"{value:<{size}}", alarm)
        line.append(GAP + trend_bars(entry["trend"], log=False, encoding=encoding))
        lines.append(line)
    return lines


def _findings(
    findings: Sequence[Finding] | None, most: int | None, width: int | None
) -> list[Text]:
    from rich.text import Text

    if findings is None:
        return [_labelled("health", "looking …", "dim")]
    own = [f for f in findings if not f.explained_by]
    own.sort(key=lambda f: (not f.is_open, -f.severity.rank))
    if not own:
        words = "nothing is wrong as far as the rules can tell"
        return [_labelled("health", words, "green")]
    lines = []
    for finding in own[:most]:
        style = _SEVERITY[finding.severity] if finding.is_open else "dim"
        words = f"{printable(finding.title)} ({when(finding.since, finding.until)})"
        first, *more = _wrapped(words, width)
        label = f"{finding.severity:<{_LABEL}} "
        tone = "" if finding.is_open else "dim"
        lines.append(Text.assemble((label, style), (first, tone)))
        lines += [Text(_INDENT + line, tone) for line in more]
        if finding.remedy and finding is own[0] and finding.is_open and most != 1:
            remedy = _wrapped(printable(finding.remedy), width)
            lines += [Text(_INDENT + line, "dim") for line in remedy]
    if most is not None and len(own) > most:
        left = f"{_INDENT}and {len(own) - most} more: see gradwatch diagnose"
        lines.append(Text(left, "dim"))
    return lines


def _wrapped(words: str, width: int | None) -> list[str]:
    """The words in lines that fit beside the labels."""
    if width is None:
        return [words]
    return textwrap.wrap(words, max(_LEAST_WIDTH, width - len(_INDENT))) or [""]


def _labelled(name: str, words: str, style: str = "") -> Text:
    from rich.text import Text

    label = shortened(printable(name), _LABEL)
    return Text.assemble((f"{label:<{_LABEL}} ", "dim"), (printable(words), style))
