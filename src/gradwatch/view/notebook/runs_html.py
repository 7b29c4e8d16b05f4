"""Several runs as HTML."""

import numpy as np

from gradwatch.diagnosis import known_findings
from gradwatch.read import Runs
from gradwatch.util import compact, counted, duration
from gradwatch.view.data import (
    Answer,
    Health,
    broken_entry,
    entry,
    metric_names,
    metric_text,
    setting_names,
    setting_text,
)
from gradwatch.view.notebook import markup, svg
from gradwatch.view.notebook.run_words import health_markup, moment

MAX_RUNS, MAX_EXTRAS = 30, 8
_LEFT = ("run", "status", "health", "course", "started", "told")


def runs_html(runs: Runs) -> str:
    """A table of the first runs."""
    entries = [_entry(runs, name) for name in runs.names[:MAX_RUNS]]
    metrics, settings = metric_names(entries, MAX_EXTRAS), setting_names(entries, MAX_EXTRAS)
    has_told = any(known["tags"] or known["note"] for known in entries)
    rows = [
        {
            **_facts(known),
            **{f"metric {name}": metric_text(known, name) for name in metrics},
            **{f"setting {name}": markup.text(setting_text(known, name), 30) for name in settings},
            **({"told": _told(known)} if has_told else {}),
        }
        for known in entries
    ]
    titles = {"course": "", "told": "", **{f"metric {name}": name for name in metrics}}
    titles |= {f"setting {name}": name for name in settings}
    columns = list(rows[0]) if rows else []
    left = frozenset(i for i, column in enumerate(columns) if column in _LEFT)
    header = [markup.text(titles.get(column, column), 24) for column in columns]
    table = markup.table(header, [list(row.values()) for row in rows], left)
    title = markup.line(f"<b>{markup.text(runs.path)}</b>", markup.text(counted(len(runs), "run")))
    more = len(runs) - MAX_RUNS
    note = markup.line(markup.text(f"and {more:,} more: names")) if more > 0 else ""
    return markup.whole(title, table, note)


def _entry(runs: Runs, name: str) -> Answer:
    try:
        run = runs[name]
        return entry(run, "", name, known_findings(run).findings)
    except Exception as error:
        # A broken run must not hide the others.
        return broken_entry("", name, f"cannot be opened: {error}")


def _facts(known: Answer) -> dict[str, str]:
    loss = None if known["loss"] is None else float(known["loss"])
    course = np.array([float(value) for value in known["course"] or ()])
    return {
        "run": markup.text(known["name"], 60),
        "status": markup.text(known["status"]),
        "health": health_markup(Health.from_facts(known["health"])),
        "steps": "-" if known["last_step"] is None else f"{known['last_step']:,}",
        "loss": markup.text(compact(loss)),
        # In a cell without a width, a picture that may be narrower has none.
        "course": f'<div style="width:90px">{svg.line(course, width=90, height=20)}</div>'
        * bool(course.size),
        "duration": markup.text(duration(known["duration"])),
        "started": markup.text(moment(known["started"])),
    }


def _told(known: Answer) -> str:
    """Its tags and its note."""
    words = [*(f"[{tag}]" for tag in known["tags"] or ()), known["note"] or ""]
    return markup.text(" ".join(filter(None, words)), 60)
