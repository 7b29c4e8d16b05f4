"""A run, and several, as HTML."""

from __future__ import annotations

import time

import numpy as np

from gradwatch.core import Kind
from gradwatch.diagnosis import Finding, findings_file, findings_of
from gradwatch.read import Run, Runs, Status
from gradwatch.view.glance import trends
from gradwatch.view.glance.words import compact, counted, duration, when
from gradwatch.view.notebook import markup
from gradwatch.view.notebook import svg as picture
from gradwatch.view.notebook.colours import scale_for
from gradwatch.view.notebook.folding import by_layer
from gradwatch.view.notebook.naming import quantity
from gradwatch.watches.budget import in_words

COLUMNS = 60
"""How many columns the pictures have at most."""
FINDINGS, LOSSES, RUNS = 5, 3, 30
_FEW_ROWS = 200_000
"""Up to so many, a run is diagnosed while one waits for it to be displayed."""


def run_html(run: Run) -> str:
    """What the run is, its losses, what is wrong with it, and its gradients over time."""
    rank = min(run.ranks, default=0)
    return markup.whole(_title(run), *_losses(run, rank), *_health(run), *_heatmap(run, rank))


def runs_html(runs: Runs) -> str:
    """A table of the runs, of which the first are opened."""
    rows = []
    for name in runs.names[:RUNS]:
        try:
            rows.append(_row(name, runs[name]))
        except Exception as fault:
            # Whatever is wrong with it, the others are to be seen.
            rows.append([markup.text(name, 60), markup.text(f"cannot be opened: {fault}", 60)])
            rows[-1] += [""] * 4
    title = markup.line(f"<b>{markup.text(runs.path)}</b>", markup.text(counted(len(runs), "run")))
    header = ["run", "status", "steps", "loss", "took", "started"]
    more = len(runs) - RUNS
    below = markup.line(markup.text(f"and {more:,} more: names")) if more > 0 else ""
    return markup.whole(title, markup.table(header, rows, frozenset({0, 1, 5})), below)


def _row(name: str, run: Run) -> list[str]:
    losses = run.losses()
    last = next((float(v[-1]) for _, v in losses.values() if v.size), None)
    started = "" if run.started is None else _moment(run.started)
    steps = "-" if run.last_step is None else f"{run.last_step:,}"
    cells = [compact(last), duration(run.duration), started]
    return [markup.text(name, 60), _status(run.status), steps, *map(markup.text, cells)]


def _title(run: Run) -> str:
    parts = []
    last = run.last_step
    parts.append("no step yet" if last is None else f"{run.steps().size:,} steps to {last:,}")
    epochs = [epoch.number for epoch in run.epochs if epoch.number > 0]
    if epochs:
        parts.append(f"epoch {max(epochs):,}")
    parts.append(f"{len(run.sites()):,} sites")
    if run.started is not None:
        parts.append(f"started {_moment(run.started)}, took {duration(run.duration)}")
    if cost := in_words(run.facts.get("cost")):
        parts.append(cost)
    name = f"<b>{markup.text(run.name, 80)}</b>"
    return markup.line(name, _status(run.status), markup.text(" · ".join(parts)))


def _status(status: Status) -> str:
    good = status in (Status.LIVE, Status.FINISHED)
    return markup.coloured(str(status), markup.GOOD if good else markup.SEVERITIES["error"])


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _losses(run: Run, rank: int) -> list[str]:
    sites = run.sites(Kind.LOSS)[:LOSSES]
    lines = []
    for site, trend in trends.trends_of(run, sites, "value", COLUMNS, rank).items():
        steps, values = run.series(site.kind, site.path, "value", rank=rank)
        if steps.size:
            drawn = picture.line(np.array(trend["values"], np.float64))
            last = f"{compact(float(values[-1]))} at step {int(steps[-1]):,}"
            lines.append(markup.line(markup.text(site.path, 40), drawn, markup.text(last)))
    return lines


def _health(run: Run) -> list[str]:
    is_whole = run.rows <= _FEW_ROWS
    found = findings_of(run) if is_whole else findings_file.read(run.path)
    shown = [finding for finding in found if not finding.explained_by]
    lines = [_finding(finding) for finding in shown[:FINDINGS]]
    if len(shown) > FINDINGS:
        lines.append(markup.line(markup.text(f"and {len(shown) - FINDINGS} more findings")))
    if not is_whole:
        said = "Found while training" if shown else "Nothing was found while training"
        words = f"{said}; gradwatch.diagnose(run) looks at all that is recorded."
        lines.append(markup.line(markup.text(words), style=markup.MUTED))
    elif not shown and run.last_step is not None:
        words = "Nothing is wrong as far as the rules can tell."
        lines.append(markup.line(markup.text(words), style=f"color:{markup.GOOD}"))
    for each in run.damage[:FINDINGS]:
        words = markup.text(f"{each.file.name}: {each.what}", 160)
        lines.append(markup.line(markup.coloured("damage", markup.SEVERITIES["error"]), words))
    return lines


def _finding(finding: Finding) -> str:
    first = markup.line(
        markup.coloured(str(finding.severity), markup.SEVERITIES[str(finding.severity)]),
        markup.text(f"{finding.title} ({when(finding.since, finding.until)})"),
    )
    return first + markup.line(markup.text(finding.remedy), style=f"margin-left:4em;{markup.MUTED}")


def _heatmap(run: Run, rank: int) -> list[str]:
    folded = by_layer(run, COLUMNS, rank)
    if folded is None:
        return []
    ends = f"step {folded.first:,}", f"step {folded.last:,}"
    label, _ = quantity(folded.kind, "l2")
    scale = scale_for(folded.values, "log")
    drawn = picture.heatmap(folded.values, folded.marked, folded.names, ends, scale, label)
    return [markup.line(drawn)]
