"""`gradwatch ls`: the runs in a directory."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from gradwatch.cli import options
from gradwatch.cli.faults import FINE, FOUND, asking
from gradwatch.cli.json_text import dumps
from gradwatch.cli.opening import HOME, size_of
from gradwatch.cli.progress import progress
from gradwatch.cli.run_table import Column, show
from gradwatch.cli.text import bytes_, compact, duration, echo, printable
from gradwatch.read import Run, Status, runs
from gradwatch.view.glance import has_stopped

_NAMED = 3


@click.command(short_help="List runs: status, steps, loss, size.")
@click.argument("directory", type=click.Path(path_type=Path), required=False)
@options.as_json
def ls(directory: Path | None, as_json: bool) -> int:
    """List the runs in DIRECTORY (by default: runs), at any depth.

    Every file is checked on the way. The exit code is 1 if a run is damaged.
    """
    place = directory or (HOME if HOME.is_dir() else Path())
    with asking():
        found = runs.open(place)
    entries = _entries(found)
    if as_json:
        echo(dumps(entries, indent=1))
    else:
        _show(entries)
    return FOUND if any(e["damage"] or e["status"] == "broken" for e in entries) else FINE


def _entries(found: Run | runs.Runs) -> list[dict[str, Any]]:
    if isinstance(found, Run):
        return [_entry(found, found.name)]
    entries = []
    with progress("Reading runs") as tell:
        for done, name in enumerate(found.names):
            tell(done, len(found))
            try:
                with found.fresh(name) as run:
                    entries.append(_entry(run, name))
            except Exception as error:
                # Whatever is wrong with one run, the others are to be seen.
                entries.append(_broken(found.path / name, name, error))
    return entries


def _entry(run: Run, name: str) -> dict[str, Any]:
    states = run.rank_statuses
    losses = {path: float(values[-1]) for path, (_, values) in run.losses().items() if len(values)}
    return {
        "name": name,
        "path": str(run.path),
        "status": str(run.status),
        "started": run.started,
        "duration": run.duration,
        "last_step": run.last_step,
        "measured_steps": len(run.steps()),
        "sites": len(run.sites()),
        "losses": losses,
        "bytes": size_of(run.path),
        "ranks": len(states),
        "stopped_ranks": [one.rank for one in states if has_stopped(one)],
        "lost_rows": run.lost_rows,
        "damage": [{"file": str(d.file), "what": d.what} for d in run.damage],
    }


def _broken(place: Path, name: str, error: Exception) -> dict[str, Any]:
    known = dict.fromkeys(("started", "duration", "last_step", "measured_steps", "sites"))
    return {
        "name": name,
        "path": str(place),
        "status": "broken",
        **known,
        "losses": {},
        "bytes": size_of(place),
        "ranks": 0,
        "stopped_ranks": [],
        "lost_rows": 0,
        "damage": [{"file": str(place), "what": f"{type(error).__name__}: {error}"}],
    }


def _show(entries: list[dict[str, Any]]) -> None:
    wrong = frozenset(
        i
        for i, e in enumerate(entries)
        if e["status"] in (Status.CRASHED, Status.DAMAGED, "broken")
    )
    hurt = frozenset(i for i, e in enumerate(entries) if e["damage"] or e["lost_rows"])
    columns = [
        Column("run", [printable(e["name"]) for e in entries], left=True, weight=0),
        Column("status", [e["status"] for e in entries], left=True, weight=9, alarming=wrong),
        Column("started", [_moment(e["started"]) for e in entries], left=True, weight=3),
        Column("took", [duration(e["duration"]) for e in entries], weight=5),
        Column("last step", [_whole(e["last_step"]) for e in entries], weight=8),
        Column("measured", [_whole(e["measured_steps"]) for e in entries], weight=2),
        Column("loss", [_loss(e["losses"]) for e in entries], weight=7),
        Column("sites", [_whole(e["sites"]) for e in entries], weight=4),
        Column("size", [bytes_(e["bytes"]) for e in entries], weight=4),
    ]
    if any(e["ranks"] > 1 for e in entries):
        stopped = frozenset(i for i, e in enumerate(entries) if e["stopped_ranks"])
        columns.append(
            Column("ranks", [_ranks(e) for e in entries], left=True, weight=6, alarming=stopped)
        )
    if hurt:
        cells = [_wounds(e) for e in entries]
        columns.append(Column("damage", cells, left=True, weight=6, alarming=hurt))
    show(columns)


def _ranks(entry: dict[str, Any]) -> str:
    """How many processes there are, and which of them have stopped or are missing."""
    if entry["ranks"] < 2:
        return "-"
    stopped = entry["stopped_ranks"]
    named = ", ".join(map(str, stopped[:_NAMED])) + "…" * (len(stopped) > _NAMED)
    return f"{entry['ranks']:,}, without {named}" if stopped else f"{entry['ranks']:,}"


def _wounds(entry: dict[str, Any]) -> str:
    damage, lost = len(entry["damage"]), entry["lost_rows"]
    parts = [f"{damage} found"] * bool(damage) + [f"{lost:,} rows lost"] * bool(lost)
    return ", ".join(parts) or "-"


def _moment(seconds: float | None) -> str:
    return "-" if seconds is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _whole(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _loss(losses: dict[str, float]) -> str:
    """The first; a second one would not fit, and all are in `show`."""
    return compact(next(iter(losses.values()), None)) + "…" * (len(losses) > 1)
