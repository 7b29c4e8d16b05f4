"""How `show` prints a run."""

import math
import sys
import time
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

from gradwatch.cli.output import echo, echo_table, stdout_width, style
from gradwatch.core import STATISTICS, VALUE
from gradwatch.read import RankStatus, Status
from gradwatch.util import (
    TextColumn,
    bytes_,
    compact,
    counted,
    duration,
    printable,
    when,
    without_root,
)
from gradwatch.util.fold_names import MAX_ROWS
from gradwatch.view.data import Health, cast_columns, told_in_words
from gradwatch.view.text import layer_columns, number_names, ranks_in_words, trend_bars
from gradwatch.watches.budget import cost

Data = Mapping[str, Any]
Line = tuple[str, str, str]
"""A label, the text, and its colour."""
_NAMED = 3
_MOST_FINDINGS = 5
_COLOURS = {"error": "red", "warning": "yellow", "info": "cyan"}


def print_overview(data: Data) -> None:
    _print_facts(data)
    if data["numbers"]:
        _print_numbers(data["numbers"])
    _print_health(data)
    if data["gradients"]["largest"]:
        _print_extremes(data["gradients"])
    if data["layers"]:
        _title("Layers")
        columns = layer_columns(data["layers"], sys.stdout.encoding, MAX_ROWS)
        echo_table(columns)
        if len(columns[0].cells) < len(data["layers"]):
            echo(f"{len(data['layers'])} layers, folded; --sites PATTERN shows some one by one.")


def print_statistic(data: Data) -> None:
    entries = data["sites"]
    name = data["statistic"]
    echo(style(f"{printable(data['run'])}: {data['kind']} {name}", bold=True))
    is_log = name != VALUE.name and (name not in STATISTICS or STATISTICS[name].scale == "log")
    echo_table(
        [
            _names("site", without_root([e["path"] for e in entries])),
            _trends(entries, log=is_log),
            _numbers(entries, "first", weight=4),
            _numbers(entries, "last", weight=9),
            _numbers(entries, "lowest", weight=6),
            _numbers(entries, "highest", weight=7),
            _integers(entries, "steps", weight=2),
        ]
    )


def print_casts(data: Data) -> None:
    rows = data["sites"]
    echo(style(f"{printable(data['run'])}: elements that casts would lose", bold=True))
    shares = cast_columns(rows).items()
    echo_table(
        [
            TextColumn("kind", [printable(row["kind"]) for row in rows], left=True),
            _names("site", without_root([row["path"] for row in rows])),
            _integers(rows, "step", "at step", weight=2),
            *(TextColumn(header, cells, weight=9 - i) for i, (header, cells) in enumerate(shares)),
        ]
    )
    if not shares:
        echo("No cast to float16, bfloat16 or float8 would make any of them 0 or too large.")


def _print_facts(data: Data) -> None:
    health = Health.from_facts(data["health"])
    name = style(printable(data["name"]), bold=True)
    condition = style(str(health.condition), health.colour or None)
    echo(f"{name}  {data['status']}  {condition}  {printable(data['path'])}")
    lines = [(label, words, "") for label, words in told_in_words(data).items() if words]
    if data["started"] is not None:
        begun = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(data["started"]))
        lines.append(("started", f"{begun}, took {duration(data['duration'])}", ""))
    lines += [("steps", _steps(data), ""), ("recorded", _recorded(data), "")]
    if len(data["rank_statuses"]) > 1:
        ranks = [RankStatus(**{**e, "status": Status(e["status"])}) for e in data["rank_statuses"]]
        is_crashed = any(rank.status is Status.CRASHED for rank in ranks)
        lines.append(("ranks", ranks_in_words(ranks), "red" if is_crashed else ""))
    if words := cost.in_words(data["cost"]):
        lines.append(("cost", words, ""))
    if imported := data["imported"]:
        lines.append(("imported", f"from {imported.get('tool')}: {imported.get('from')}", ""))
    if data["environment"]:
        known = [f"{k} {v}" for k, v in data["environment"].items() if k != "machine"]
        lines.append(("made with", ", ".join(known), ""))
    _print_lines(lines)


def _steps(data: Data) -> str:
    if data["last_step"] is None:
        return "none yet"
    parts = [f"to {data['last_step']:,}, {data['measured_steps']:,} of them measured"]
    if data["epochs"]:
        parts.append(counted(data["epochs"], "epoch"))
    if len(data["ranks"]) > 1:
        parts.append(f"{len(data['ranks'])} processes")
    if data["attempts"] > max(1, len(data["ranks"])):
        parts.append(counted(data["attempts"], "attempt"))
    return ", ".join(parts)


def _recorded(data: Data) -> str:
    kinds = ", ".join(f"{n:,} {printable(kind)}" for kind, n in data["sites"].items())
    return f"{kinds or 'nothing'}; {counted(data['rows'], 'row')}, {bytes_(data['bytes'])}"


def _print_health(data: Data) -> None:
    health = data["health"]
    several = len(data["ranks"]) > 1
    _title(f"Health of rank {data['rank']} (--rank shows another)" if several else "Health")
    bad, zero, lost = health["nonfinite"], health["zero_gradients"], health["lost_rows"]
    learning = data["learning"]
    lines = [("verdict", learning["text"], "")] if learning is not None else []
    lines += _findings(data["findings"])
    lines += [
        ("NaN or Inf", _nonfinite(bad) if bad else "none", "red" if bad else ""),
        ("all 0", _zero_gradients(zero) if zero else "none", "yellow" if zero else ""),
        ("lost", f"{lost:,} rows" if lost else "nothing", "red" if lost else ""),
    ]
    if not health["damage"]:
        lines.append(("damage", "none", ""))
    for each in health["damage"]:
        file = each["file"].rpartition("/")[2]
        lines.append(("damage", f"{file}: {each['what']}", "red"))
    _print_lines(lines)


def _findings(findings: Sequence[Data]) -> list[Line]:
    """The findings that no other one explains, the worst first."""
    shown = [each for each in findings if not each["explained_by"]]
    if not shown:
        return [("findings", "none", "green")]
    lines = []
    for each in shown[:_MOST_FINDINGS]:
        text = f"{each['title']} ({when(each['since'], each['until'])})"
        lines.append((each["severity"], text, _COLOURS[each["severity"]]))
        explained = [other for other in findings if other["explained_by"] == each["rule"]]
        lines += [("so also", other["title"], "") for other in explained]
    more = len(shown) - _MOST_FINDINGS
    if more > 0:
        lines.append(("", f"and {more} more: see gradwatch diagnose", ""))
    return lines


def _nonfinite(bad: Sequence[Data]) -> str:
    # Which of them was the first in its step is for the findings to say: they know the order in
    # which a step computes.
    total = counted(sum(each["elements"] for each in bad), "element")
    first = min(each["first_step"] for each in bad)
    last = max(each["last_step"] for each in bad)
    stretch = f"at step {first:,}" if first == last else f"steps {first:,} to {last:,}"
    return f"{total} of {counted(len(bad), 'site')}, {stretch}"


def _zero_gradients(zero: Sequence[Data]) -> str:
    worst = sorted(zero, key=lambda each: -each["steps"] / max(each["of"], 1))
    names = [
        f"{printable(each['path'])} (in {each['steps']:,} of {each['of']:,} steps)"
        for each in worst[:_NAMED]
    ]
    more = f" and {len(zero) - _NAMED} more" if len(zero) > _NAMED else ""
    return f"{counted(len(zero), 'gradient')}: {', '.join(names)}{more}"


def _print_numbers(entries: Sequence[Data]) -> None:
    _title("Losses, metrics and other numbers")
    bad = frozenset(i for i, e in enumerate(entries) if not math.isfinite(e["last"]))
    echo_table(
        [
            _names("name", number_names(entries)),
            _trends(entries, log=False),
            _numbers(entries, "last", weight=9, alarms=bad),
            _numbers(entries, "best", weight=8),
            _integers(entries, "best_step", "at step", weight=7),
            _numbers(entries, "first", weight=4),
            _numbers(entries, "lowest", weight=3),
            _numbers(entries, "highest", weight=2),
        ]
    )


def _print_extremes(gradients: Mapping[str, Sequence[Data]]) -> None:
    _title("Largest and smallest gradients")
    entries = [*gradients["largest"], *gradients["smallest"][::-1]]
    echo_table(
        [
            _names("site", without_root([e["path"] for e in entries])),
            _numbers(entries, "l2", "L2", weight=9),
            _integers(entries, "step", "at step", weight=3),
            _numbers(entries, "peak", weight=6),
            _integers(entries, "peak_step", "at step", weight=4),
        ]
    )


def _names(header: str, names: Sequence[str]) -> TextColumn:
    return TextColumn(header, [printable(name) for name in names], left=True, weight=0)


def _numbers(
    entries: Sequence[Data],
    field: str,
    header: str = "",
    *,
    weight: int,
    alarms: frozenset[int] = frozenset(),
) -> TextColumn:
    cells = ["" if each[field] is None else compact(each[field]) for each in entries]
    return TextColumn(header or field, cells, weight=weight, alarms=alarms)


def _integers(entries: Sequence[Data], field: str, header: str = "", *, weight: int) -> TextColumn:
    cells = ["" if each[field] is None else f"{each[field]:,}" for each in entries]
    return TextColumn(header or field, cells, weight=weight)


def _trends(entries: Sequence[Data], log: bool) -> TextColumn:
    bars = [trend_bars(each["trend"], log, sys.stdout.encoding) for each in entries]
    return TextColumn("over time", bars, left=True)


def _title(text: str) -> None:
    echo(f"\n{style(text, bold=True)}")


def _print_lines(lines: Sequence[Line]) -> None:
    """Print labels and texts; a text is wrapped on a terminal."""
    width = stdout_width()
    for label, words, colour in lines:
        text = printable(words)  # run.json may contain anything
        for i, part in enumerate([text] if width is None else wrap(text, max(width - 12, 8))):
            echo(f"{'' if i else label:<10}  {style(part, colour) if colour else part}")
