"""What is above the table of layers in `top`: the run, its numbers, what is wrong with it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradwatch.core import Kind
from gradwatch.diagnosis import Finding, Severity
from gradwatch.read import Status
from gradwatch.util import printable, shortened
from gradwatch.view.glance.standing import Standing
from gradwatch.view.glance.text_columns import GAP
from gradwatch.view.glance.trends import BOOKKEEPING, bars
from gradwatch.view.glance.words import compact, counted, duration, when
from gradwatch.view.terminal.wishes import Wishes

if TYPE_CHECKING:
    from rich.text import Text

NUMBERS = 3
"""How many losses and the like are shown at most."""
FINDINGS = 4
"""How many findings are shown at most, while there are layers to show too."""
QUIET_SECONDS = 15
"""A live run from which nothing has come for so long is said to be quiet."""
_LABEL = 13
"""As wide as `learning rate`."""
_STATUS = {Status.LIVE: "green", Status.FINISHED: "green", Status.EMPTY: "yellow"}
_SEVERITY = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_NOT_SHOWN = {"batch_size", *BOOKKEEPING}


@dataclass(frozen=True)
class Shown:
    """What is known at a moment.

    Attributes:
        standing: how the run stands; None if nothing has been read yet.
        findings: what is wrong with it; None as long as nobody has looked.
        wishes: what of it is to be seen.
        message: what else the user is to know, such as a mistake in the filter.
        encoding: of the terminal.
        now: the time, in seconds since 1970.
    """

    standing: Standing | None
    findings: Sequence[Finding] | None
    wishes: Wishes
    message: str = ""
    encoding: str = "utf-8"
    now: float | None = None


def above(shown: Shown, width: int | None, height: int | None) -> list[Text]:
    """The lines; a low terminal gets fewer findings."""
    from rich.text import Text

    standing = shown.standing
    if standing is None:
        return [Text("Reading the run …")]
    lines = [_head(standing, shown.now)]
    lines += _numbers(standing, shown.encoding)
    if standing.cost:
        lines.append(_labelled("cost", standing.cost))
    if standing.ranks:
        style = "red" if standing.is_rank_stopped else ""
        lines.append(_labelled("ranks", standing.ranks, style))
    if standing.damage:
        words = f"{counted(standing.damage, 'place')} cannot be read: gradwatch verify tells which"
        lines.append(_labelled("damage", words, "red"))
    if standing.lost_rows:
        lines.append(_labelled("lost", counted(standing.lost_rows, "row"), "red"))
    most = None if height is None else max(1, min(FINDINGS, (height - 10) // 4))
    lines += _findings(shown, width, most)
    return [*lines, Text("")]


def _head(standing: Standing, now: float | None) -> Text:
    from rich.text import Text

    parts = []
    if standing.step is None:
        parts.append("no step yet")
    else:
        parts.append(f"step {standing.step:,}")
    if standing.epoch is not None:
        parts.append(f"epoch {standing.epoch:,}")
    rate = standing.steps_per_second
    if rate is not None:
        ended = "" if standing.status is Status.LIVE else " at the end"
        parts.append(f"{compact(rate)} steps/s{ended}")
    measured = counted(standing.measured_steps, "step")
    parts.append(f"{measured} measured in {duration(standing.duration)}")
    quiet = (time.time() if now is None else now) - (standing.last_time or 0.0)
    line = Text.assemble(
        (printable(standing.name), "bold"),
        GAP,
        (str(standing.status), _STATUS.get(standing.status, "bold red")),
        GAP,
        " · ".join(parts),
    )
    if standing.status is Status.LIVE and standing.last_time and quiet > QUIET_SECONDS:
        line.append(f" · nothing new for {duration(quiet)}", "yellow")
    return line


def _numbers(standing: Standing, encoding: str) -> list[Text]:
    kinds = (str(Kind.LOSS), str(Kind.SCALAR))
    entries = [e for e in standing.numbers if e["kind"] in kinds and e["path"] not in _NOT_SHOWN]
    # The loss first, then what there is of the learning rate.
    entries.sort(key=lambda e: (e["kind"] != Kind.LOSS, e["path"] != "learning_rate"))
    values = [compact(entry["value"]) for entry in entries[:NUMBERS]]
    size = max(map(len, values), default=0)
    lines = []
    for entry, value in zip(entries, values, strict=False):
        alarm = "" if math.isfinite(entry["value"]) else "bold red"
        line = _labelled(entry["path"].replace("_", " "), f"{value:<{size}}", alarm)
        line.append(GAP + bars(entry["trend"], log=False, encoding=encoding))
        lines.append(line)
    return lines


def _findings(shown: Shown, width: int | None, most: int | None) -> list[Text]:
    from rich.text import Text

    if shown.findings is None:
        return [_labelled("health", "looking …", "dim")]
    own = [f for f in shown.findings if not f.explained_by]
    own.sort(key=lambda f: (not f.is_open, -f.severity.rank))
    if not own:
        words = "nothing is wrong as far as the rules can tell"
        return [_labelled("health", words, "green")]
    lines = []
    for finding in own[:most]:
        style = _SEVERITY[finding.severity] if finding.is_open else "dim"
        line = Text(f"{finding.severity:<{_LABEL}} ", style)
        line.append(
            f"{printable(finding.title)} ({when(finding.since, finding.until)})",
            "" if finding.is_open else "dim",
        )
        lines.append(line)
        if finding.remedy and finding is own[0] and finding.is_open and most != 1:
            remedy = Text(" " * (_LABEL + 1) + printable(finding.remedy), "dim")
            lines.append(remedy)
    if most is not None and len(own) > most:
        more = f"{' ' * _LABEL} and {len(own) - most} more: gradwatch diagnose tells all"
        lines.append(Text(more, "dim"))
    return lines


def _labelled(name: str, words: str, style: str = "") -> Text:
    from rich.text import Text

    label = shortened(printable(name), _LABEL)
    return Text.assemble((f"{label:<{_LABEL}} ", "dim"), (printable(words), style))
