"""A run, and several runs, as HTML."""

import time
from dataclasses import replace

import numpy as np

from gradwatch.core import Kind
from gradwatch.diagnosis import Finding, KnownFindings, known_findings
from gradwatch.read import Run, Runs
from gradwatch.util import compact, counted, duration, when
from gradwatch.view.data import Health, entry, health_of, layer_grid, number_rows
from gradwatch.view.notebook import markup, svg
from gradwatch.watches.budget import in_words

MAX_COLUMNS, MAX_FINDINGS, MAX_LOSSES, MAX_RUNS = 60, 5, 3, 30


def run_html(run: Run) -> str:
    """The run's facts, its losses, its findings, and its gradients over time."""
    rank = min(run.ranks, default=0)
    grid = layer_grid(run, MAX_COLUMNS, rank)
    heatmap = [] if grid is None else [markup.line(svg.heatmap(grid))]
    known = known_findings(run)
    title = _title(run, health_of(run, known.findings))
    return markup.whole(title, *_losses(run, rank), *_findings(run, known), *heatmap)


def runs_html(runs: Runs) -> str:
    """A table of the first runs."""
    rows = []
    for name in runs.names[:MAX_RUNS]:
        try:
            rows.append(_row(name, runs[name]))
        except Exception as error:
            # A broken run must not hide the others.
            message = markup.text(f"cannot be opened: {error}", 60)
            rows.append([markup.text(name, 60), "", message, "", "", "", ""])
    title = markup.line(f"<b>{markup.text(runs.path)}</b>", markup.text(counted(len(runs), "run")))
    header = ["run", "status", "health", "steps", "loss", "duration", "started"]
    more = len(runs) - MAX_RUNS
    note = markup.line(markup.text(f"and {more:,} more: names")) if more > 0 else ""
    return markup.whole(title, markup.table(header, rows, frozenset({0, 1, 2, 6})), note)


def _row(name: str, run: Run) -> list[str]:
    known = entry(run, "", name, known_findings(run).findings)
    steps = "-" if known["last_step"] is None else f"{known['last_step']:,}"
    loss = None if known["loss"] is None else float(known["loss"])
    cells = [compact(loss), duration(known["duration"]), _moment(known["started"])]
    status, health = markup.text(str(run.status)), _health(Health.from_facts(known["health"]))
    return [markup.text(name, 60), status, health, steps, *map(markup.text, cells)]


def _title(run: Run, health: Health) -> str:
    last = run.last_step
    parts = ["no step yet" if last is None else f"{run.measured_steps.size:,} steps to {last:,}"]
    epochs = [epoch.number for epoch in run.epochs if epoch.number > 0]
    if epochs:
        parts.append(f"epoch {max(epochs):,}")
    parts.append(f"{len(run.sites()):,} sites")
    if run.started is not None:
        parts.append(f"started {_moment(run.started)}, took {duration(run.duration)}")
    if cost := in_words(run.facts.get("cost")):
        parts.append(cost)
    name = f"<b>{markup.text(run.name, 80)}</b>"
    # The worst finding follows below.
    condition = _health(replace(health, headline=""))
    return markup.line(
        name, markup.text(str(run.status)), condition, markup.text(" · ".join(parts))
    )


def _health(health: Health) -> str:
    """Its word, coloured, and its line."""
    colours = {"red": markup.SEVERITIES["error"], "yellow": markup.SEVERITIES["warning"]}
    colours["green"] = markup.GOOD
    word = str(health.condition)
    shown = markup.coloured(word, colours[health.colour]) if health.colour else markup.text(word)
    return f"{shown} {markup.text(health.headline, 80)}" if health.headline else shown


def _moment(seconds: float | None) -> str:
    return "" if seconds is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _losses(run: Run, rank: int) -> list[str]:
    sites = run.sites(Kind.LOSS)[:MAX_LOSSES]
    return [
        markup.line(
            markup.text(row["path"], 40),
            svg.line(np.array(row["trend"]["values"], np.float64)),
            markup.text(f"{compact(row['last'])} at step {row['last_step']:,}"),
        )
        for row in number_rows(run, sites, MAX_COLUMNS, rank)
    ]


def _findings(run: Run, known: KnownFindings) -> list[str]:
    shown = [finding for finding in known.findings or () if not finding.explained_by]
    lines = [finding_html(finding) for finding in shown[:MAX_FINDINGS]]
    if len(shown) > MAX_FINDINGS:
        lines.append(markup.line(markup.text(f"and {len(shown) - MAX_FINDINGS} more findings")))
    if not known.is_complete:
        note = "Findings during training" if shown else "No findings during training"
        note += "; gradwatch.diagnose(run) diagnoses the whole run."
        lines.append(markup.line(markup.text(note), style=markup.MUTED))
    elif not shown and run.last_step is not None:
        lines.append(markup.line(markup.text("No findings."), style=f"color:{markup.GOOD}"))
    for each in run.damage[:MAX_FINDINGS]:
        problem = markup.text(f"{each.file.name}: {each.what}", 160)
        lines.append(markup.line(markup.coloured("damage", markup.SEVERITIES["error"]), problem))
    return lines


def finding_html(finding: Finding) -> str:
    """What was found and since when, and the remedy below."""
    severity = str(finding.severity)
    title = markup.line(
        markup.coloured(severity, markup.SEVERITIES[severity]),
        markup.text(f"{finding.title} ({when(finding.since, finding.until)})"),
    )
    return title + markup.line(markup.text(finding.remedy), style=f"margin-left:4em;{markup.MUTED}")
