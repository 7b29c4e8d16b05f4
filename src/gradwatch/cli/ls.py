"""`gradwatch ls`: the runs in a directory."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from gradwatch.cli import options
from gradwatch.cli.exit_codes import FOUND, OK, user_errors
from gradwatch.cli.opening import HOME
from gradwatch.cli.output import echo_json, echo_table, progress
from gradwatch.diagnosis import known_findings
from gradwatch.read import Run, Runs, Status, outline_of
from gradwatch.read import open as open_place
from gradwatch.util import TextColumn, bytes_, compact, duration, printable, shortened
from gradwatch.view.data import (
    Health,
    damage_facts,
    directory_size,
    health_of,
    metric_names,
    metric_text,
    outline_facts,
    setting_names,
    setting_text,
    unreadable,
)
from gradwatch.view.text import has_stopped

Entry = dict[str, Any]
_NAMED = 3
_EXTRAS, _LONGEST = 8, 32
"""How many metrics and settings are columns, and how long their texts are."""


@click.command(short_help="List runs: status, health, verdict, steps, loss, size.")
@click.argument("directory", type=click.Path(path_type=Path), required=False)
@options.as_json
def ls(directory: Path | None, as_json: bool) -> int:
    """List the runs in DIRECTORY and below; by default in the directory runs.

    Every file is checked. The health of a large run that was not diagnosed while it was recorded is
    not known here; see gradwatch diagnose. The exit code is 1 if a run is damaged.
    """
    place = directory or (HOME if HOME.is_dir() else Path())
    with user_errors():
        found = open_place(place)
    entries = _entries(found)
    if as_json:
        echo_json(entries)
    else:
        _print(entries)
    return FOUND if any(e["damage"] or e["status"] == "broken" for e in entries) else OK


def _entries(found: Run | Runs) -> list[Entry]:
    if isinstance(found, Run):
        return [_entry(found, found.name)]
    entries = []
    with progress("Reading runs") as advance:
        for done, name in enumerate(found.names):
            advance(done, len(found))
            try:
                with found.fresh(name) as run:
                    entries.append(_entry(run, name))
            except Exception as error:
                # A broken run must not hide the others.
                entries.append(_broken(found.path / name, name, error))
    return entries


def _entry(run: Run, name: str) -> Entry:
    ranks = run.rank_statuses
    outline = outline_of(run)
    known = known_findings(run)
    return {
        "name": name,
        "path": str(run.path),
        "status": str(run.status),
        "health": health_of(run, known.findings).facts(),
        "learning": None if known.verdict is None else known.verdict.facts(),
        "started": run.started,
        "duration": run.duration,
        "last_step": run.last_step,
        "measured_steps": len(run.measured_steps),
        "sites": len(run.sites()),
        "losses": outline.losses,
        **outline_facts(outline),
        "bytes": directory_size(run.path),
        "ranks": len(ranks),
        "stopped_ranks": [rank.rank for rank in ranks if has_stopped(rank)],
        "lost_rows": run.lost_rows,
        "damage": damage_facts(run),
    }


def _broken(place: Path, name: str, error: Exception) -> Entry:
    unknown = dict.fromkeys(("started", "duration", "last_step", "measured_steps", "sites"))
    message = f"{type(error).__name__}: {error}"
    return {
        "name": name,
        "path": str(place),
        "status": "broken",
        "health": unreadable(message).facts(),
        "learning": None,
        **unknown,
        "losses": {},
        **dict.fromkeys(("metrics", "course", "config", "tags", "note")),
        "bytes": directory_size(place),
        "ranks": 0,
        "stopped_ranks": [],
        "lost_rows": 0,
        "damage": [{"file": str(place), "what": message}],
    }


def _print(entries: list[Entry]) -> None:
    wrong = _rows(entries, lambda e: e["status"] in (Status.CRASHED, Status.DAMAGED, "broken"))
    conditions = [e["health"]["condition"] for e in entries]
    unwell = _rows(entries, lambda e: Health.from_facts(e["health"]).is_bad)
    headlines = [printable(e["health"]["headline"]) for e in entries]
    columns = [
        TextColumn("run", [printable(e["name"]) for e in entries], left=True, weight=0),
        TextColumn("status", [e["status"] for e in entries], left=True, weight=9, alarms=wrong),
        TextColumn("health", conditions, left=True, weight=9, alarms=unwell),
        TextColumn("verdict", [_word(e["learning"]) for e in entries], left=True, weight=6),
        TextColumn("started", [_moment(e["started"]) for e in entries], left=True, weight=3),
        TextColumn("took", [duration(e["duration"]) for e in entries], weight=5),
        TextColumn("last step", [_whole(e["last_step"]) for e in entries], weight=8),
        TextColumn("measured", [_whole(e["measured_steps"]) for e in entries], weight=2),
        TextColumn("loss", [_loss(e["losses"]) for e in entries], weight=7),
        *_extras(entries),
        TextColumn("sites", [_whole(e["sites"]) for e in entries], weight=4),
        TextColumn("size", [bytes_(e["bytes"]) for e in entries], weight=4),
    ]
    if any(e["ranks"] > 1 for e in entries):
        stopped = _rows(entries, lambda e: e["stopped_ranks"])
        cells = [_ranks(e) for e in entries]
        columns.append(TextColumn("ranks", cells, left=True, weight=6, alarms=stopped))
    if damaged := _rows(entries, lambda e: e["damage"] or e["lost_rows"]):
        cells = [_damage(e) for e in entries]
        columns.append(TextColumn("damage", cells, left=True, weight=6, alarms=damaged))
    if any(headlines):
        columns.append(TextColumn("what is wrong", headlines, left=True, weight=0))
    echo_table(columns)


def _word(learning: dict[str, Any] | None) -> str:
    return "" if learning is None or learning["word"] == "unknown" else learning["word"]


def _extras(entries: list[Entry]) -> list[TextColumn]:
    """The last metrics, the settings that differ, tags and notes, as far as there are any."""
    # In a narrow terminal, the first metrics and the first settings stay.
    columns = [
        TextColumn(printable(name), [metric_text(e, name) for e in entries], weight=max(2, 7 - i))
        for i, name in enumerate(metric_names(entries, _EXTRAS))
    ]
    for i, name in enumerate(setting_names(entries, _EXTRAS)):
        cells = [_short(setting_text(e, name)) for e in entries]
        columns.append(TextColumn(printable(name), cells, weight=max(2, 7 - i)))
    for title, cells in {
        "tags": [", ".join(e["tags"] or ()) for e in entries],
        "note": [e["note"] or "" for e in entries],
    }.items():
        if any(cells):
            columns.append(TextColumn(title, list(map(_short, cells)), left=True, weight=2))
    return columns


def _short(text: str) -> str:
    return shortened(printable(text), _LONGEST)


def _rows(entries: list[Entry], condition: Callable[[Entry], object]) -> frozenset[int]:
    return frozenset(i for i, entry in enumerate(entries) if condition(entry))


def _ranks(entry: Entry) -> str:
    """The number of processes, and which of them have stopped or are missing."""
    if entry["ranks"] < 2:
        return "-"
    stopped = entry["stopped_ranks"]
    named = ", ".join(map(str, stopped[:_NAMED])) + "…" * (len(stopped) > _NAMED)
    return f"{entry['ranks']:,}, without {named}" if stopped else f"{entry['ranks']:,}"


def _damage(entry: Entry) -> str:
    damage, lost = len(entry["damage"]), entry["lost_rows"]
    parts = [f"{damage} found"] * bool(damage) + [f"{lost:,} rows lost"] * bool(lost)
    return ", ".join(parts) or "-"


def _moment(seconds: float | None) -> str:
    return "-" if seconds is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _whole(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _loss(losses: dict[str, float]) -> str:
    """The first one; `show` prints all."""
    return compact(next(iter(losses.values()), None)) + "…" * (len(losses) > 1)
