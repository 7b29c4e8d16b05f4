"""How `show` prints its facts."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

from gradwatch.cli.run_table import Column, show, style, width
from gradwatch.cli.text import bytes_, compact, counted, duration, echo, printable
from gradwatch.read import RankStatus, Status
from gradwatch.view.glance import layer_columns, ranks_in_words, trends, without_root
from gradwatch.watches.budget import cost

COLUMNS = 24
"""How many bars a series over time gets at most."""
_NAMED = 3


def show_overview(facts: Mapping[str, Any]) -> None:
    """Print all that is known of a run."""
    _heading(facts)
    _health(facts)
    if facts["numbers"]:
        _numbers(facts["numbers"])
    if facts["gradients"]["largest"]:
        _extremes(facts["gradients"])
    if facts["layers"]:
        _layers(facts["layers"])


def show_statistic(facts: Mapping[str, Any]) -> None:
    """Print a statistic of each site."""
    entries = facts["sites"]
    is_number = facts["statistic"] == "value"
    _title(f"{printable(facts['run'])}: {facts['kind']} {facts['statistic']}")
    names = without_root([e["path"] for e in entries])
    columns = [
        Column("site", [printable(n) for n in names], left=True, weight=0),
        Column("over time", [_bars(e["trend"], log=not is_number) for e in entries], left=True),
        *(
            Column(name, [compact(e[name]) for e in entries], weight=weight)
            for name, weight in (("first", 4), ("last", 9), ("lowest", 6), ("highest", 7))
        ),
        Column("steps", [f"{e['steps']:,}" for e in entries], weight=2),
    ]
    show(columns)


def _heading(facts: Mapping[str, Any]) -> None:
    wrong = facts["status"] in ("crashed", "damaged")
    status = style(facts["status"], fg="red" if wrong else "green")
    echo(f"{style(printable(facts['name']), bold=True)}  {status}  {printable(facts['path'])}")
    lines = [("steps", _steps(facts), ""), ("recorded", _recorded(facts), "")]
    if facts["started"] is not None:
        begun = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(facts["started"]))
        lines.insert(0, ("started", f"{begun}, took {duration(facts['duration'])}", ""))
    if len(facts["rank_statuses"]) > 1:
        lines.append(("ranks", *_ranks(facts["rank_statuses"])))
    if words := cost.in_words(facts["cost"]):
        lines.append(("cost", words, ""))
    if facts["imported"]:
        about = facts["imported"]
        lines.append(("imported", f"from {about.get('tool')}: {about.get('from')}", ""))
    if facts["environment"]:
        known = [f"{k} {v}" for k, v in facts["environment"].items() if k != "machine"]
        lines.append(("made with", ", ".join(known), ""))
    _pairs(lines)


def _steps(facts: Mapping[str, Any]) -> str:
    if facts["last_step"] is None:
        return "none yet"
    parts = [f"to {facts['last_step']:,}, {facts['measured_steps']:,} of them measured"]
    if facts["epochs"]:
        parts.append(counted(facts["epochs"], "epoch"))
    if len(facts["ranks"]) > 1:
        parts.append(f"{len(facts['ranks'])} processes")
    if facts["attempts"] > max(1, len(facts["ranks"])):
        parts.append(counted(facts["attempts"], "attempt"))
    return ", ".join(parts)


def _ranks(entries: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """How the processes stand, those first that have stopped; and the colour for it."""
    each = [RankStatus(**{**entry, "status": Status(entry["status"])}) for entry in entries]
    is_crashed = any(one.status is Status.CRASHED for one in each)
    return ranks_in_words(each), "red" if is_crashed else ""


def _recorded(facts: Mapping[str, Any]) -> str:
    kinds = ", ".join(f"{n:,} {printable(kind)}" for kind, n in facts["sites"].items())
    size = f"{counted(facts['rows'], 'row')}, {bytes_(facts['bytes'])}"
    return f"{kinds}; {size}" if kinds else f"nothing; {size}"


def _health(facts: Mapping[str, Any]) -> None:
    health = facts["health"]
    several = len(facts["ranks"]) > 1
    _title(f"Health of rank {facts['rank']} (--rank shows another)" if several else "Health")
    lines = []
    bad = health["nonfinite"]
    if bad:
        total = counted(sum(each["elements"] for each in bad), "element")
        first = min(bad, key=lambda each: each["first_step"])
        where = f"{first['kind']} {printable(first['path'])} at step {first['first_step']:,}"
        last = max(each["last_step"] for each in bad)
        words = f"{total} of {counted(len(bad), 'site')}, first {where}, last at step {last:,}"
        lines.append(("NaN or Inf", words, "red"))
    else:
        lines.append(("NaN or Inf", "none", ""))
    zero = health["zero_gradients"]
    words = "none" if not zero else _named(zero)
    lines.append(("all 0", words, "yellow" if zero else ""))
    lost = health["lost_rows"]
    lines.append(("lost", f"{lost:,} rows" if lost else "nothing", "red" if lost else ""))
    if not health["damage"]:
        lines.append(("damage", "none", ""))
    for each in health["damage"]:
        file = printable(each["file"].rpartition("/")[2])
        lines.append(("damage", f"{file}: {printable(each['what'])}", "red"))
    _pairs(lines)


def _named(zero: Sequence[Mapping[str, Any]]) -> str:
    worst = sorted(zero, key=lambda each: -each["steps"] / max(each["of"], 1))
    names = [
        f"{printable(each['path'])} (in {each['steps']:,} of {each['of']:,} steps)"
        for each in worst[:_NAMED]
    ]
    more = f" and {len(zero) - _NAMED} more" if len(zero) > _NAMED else ""
    return f"{counted(len(zero), 'gradient')}: {', '.join(names)}{more}"


def _numbers(entries: Sequence[Mapping[str, Any]]) -> None:
    kinds = dict.fromkeys(each["kind"] for each in entries)
    _title("Losses" if list(kinds) == ["loss"] else "Numbers")
    several = len(kinds) > 1
    names = [f"{e['kind']} {e['path']}" if several else e["path"] for e in entries]
    bad = frozenset(i for i, e in enumerate(entries) if not math.isfinite(e["last"]))
    show(
        [
            Column("name", [printable(n) for n in names], left=True, weight=0),
            Column("over time", [_bars(e["trend"], log=False) for e in entries], left=True),
            Column("first", [compact(e["first"]) for e in entries], weight=4),
            Column("last", [compact(e["last"]) for e in entries], weight=9, alarming=bad),
            Column("lowest", [compact(e["lowest"]) for e in entries], weight=6),
            Column("at step", [_whole(e["lowest_step"]) for e in entries], weight=3),
            Column("highest", [compact(e["highest"]) for e in entries], weight=2),
        ]
    )


def _extremes(gradients: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    _title("Largest and smallest gradients")
    entries = [*gradients["largest"], *gradients["smallest"][::-1]]
    names = without_root([e["path"] for e in entries])
    show(
        [
            Column("site", [printable(n) for n in names], left=True, weight=0),
            Column("L2", [compact(e["l2"]) for e in entries], weight=9),
            Column("at step", [_whole(e["step"]) for e in entries], weight=3),
            Column("peak", [compact(e["peak"]) for e in entries], weight=6),
            Column("at step", [_whole(e["peak_step"]) for e in entries], weight=4),
        ]
    )


def _layers(layers: Sequence[Mapping[str, Any]]) -> None:
    _title("Layers")
    show(layer_columns(layers, sys.stdout.encoding))


def _bars(trend: Mapping[str, Any] | None, log: bool = True) -> str:
    return trends.bars(trend, log, sys.stdout.encoding)


def _title(text: str) -> None:
    echo(f"\n{style(text, bold=True)}")


def _pairs(lines: Sequence[tuple[str, str, str]]) -> None:
    """Names, what is to be said of each, and in which colour; on a terminal in several lines."""
    room = width()
    for name, said, colour in lines:
        text = printable(said)  # what run.json says comes from anywhere
        for i, part in enumerate([text] if room is None else wrap(text, max(room - 12, 8))):
            shown = style(part, fg=colour) if colour else part
            echo(f"{'' if i else name:<10}  {shown}")


def _whole(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"
