"""A run as HTML."""

from dataclasses import replace

import numpy as np

from gradwatch.core import Kind
from gradwatch.diagnosis import Finding, KnownFindings, all_rules, known_findings
from gradwatch.read import Run
from gradwatch.util import compact, duration, when
from gradwatch.view.data import Health, health_of, layer_grid, number_rows
from gradwatch.view.notebook import markup, svg
from gradwatch.view.notebook.run_words import health_markup, moment
from gradwatch.watches.budget import in_words

MAX_COLUMNS, MAX_FINDINGS, MAX_LOSSES = 60, 5, 3


def run_html(run: Run) -> str:
    """The run's facts, its losses, its findings, and its gradients over time."""
    rank = min(run.ranks, default=0)
    grid = layer_grid(run, MAX_COLUMNS, rank)
    heatmap = [] if grid is None else [markup.line(svg.heatmap(grid))]
    known = known_findings(run)
    title = _title(run, health_of(run, known.findings))
    return markup.whole(title, *_losses(run, rank), *_findings(run, known), *heatmap)


def _title(run: Run, health: Health) -> str:
    last = run.last_step
    parts = ["no step yet" if last is None else f"{run.measured_steps.size:,} steps to {last:,}"]
    epochs = [epoch.number for epoch in run.epochs if epoch.number > 0]
    if epochs:
        parts.append(f"epoch {max(epochs):,}")
    parts.append(f"{len(run.sites()):,} sites")
    if run.started is not None:
        parts.append(f"started {moment(run.started)}, took {duration(run.duration)}")
    if cost := in_words(run.facts.get("cost")):
        parts.append(cost)
    name = f"<b>{markup.text(run.name, 80)}</b>"
    # The worst finding follows below.
    condition = health_markup(replace(health, headline=""))
    return markup.line(
        name, markup.text(str(run.status)), condition, markup.text(" · ".join(parts))
    )


def _losses(run: Run, rank: int) -> list[str]:
    sites = run.sites(Kind.LOSS)[:MAX_LOSSES]
    return [
        markup.line(
            markup.text(row["path"], 40),
            svg.line(np.array(row["trend"]["values"], np.float64), row["trend"]["nonfinite"]),
            markup.text(f"{compact(row['last'])} at step {row['last_step']:,}"),
        )
        for row in number_rows(run, sites, MAX_COLUMNS, rank)
    ]


def _findings(run: Run, known: KnownFindings) -> list[str]:
    shown = [finding for finding in known.findings or () if not finding.explained_by]
    lines = []
    if known.verdict is not None and known.verdict.is_known:
        lines.append(markup.line(markup.text(f"verdict: {known.verdict.text()}", 160)))
    for finding in shown[:MAX_FINDINGS]:
        lines.append(finding_html(finding))
        for effect in known.findings or ():
            if effect.explained_by == finding.rule:
                note = markup.text(f"so also: {effect.title}", 160)
                lines.append(markup.line(note, style=f"margin-left:4em;{markup.MUTED}"))
    if len(shown) > MAX_FINDINGS:
        lines.append(markup.line(markup.text(f"and {len(shown) - MAX_FINDINGS} more findings")))
    if not known.is_complete:
        words = "Findings during training" if shown else "No findings during training"
        words += "; gradwatch.diagnose(run) diagnoses the whole run."
        lines.append(markup.line(markup.text(words), style=markup.MUTED))
    elif not shown and run.last_step is not None:
        lines.append(markup.line(markup.text("No findings."), style=f"color:{markup.GOOD}"))
    for each in run.damage[:MAX_FINDINGS]:
        problem = markup.text(f"{each.file.name}: {each.what}", 160)
        lines.append(markup.line(markup.coloured("damage", markup.SEVERITIES["error"]), problem))
    return lines


def finding_html(finding: Finding) -> str:
    """What was found and since when; below the remedy, and the rule, which opens."""
    severity = str(finding.severity)
    title = markup.line(
        markup.coloured(severity, markup.SEVERITIES[severity]),
        markup.text(f"{finding.title} ({when(finding.since, finding.until)})"),
    )
    remedy = markup.line(markup.text(finding.remedy), style=f"margin-left:4em;{markup.MUTED}")
    return title + remedy + _rule_html(finding.rule)


def _rule_html(name: str) -> str:
    """What a rule looks for, its numbers and how to silence it; its name if it is unknown here."""
    rule = all_rules().get(name)
    style = f"margin-left:4em;{markup.MUTED}"
    if rule is None:
        return markup.line(markup.text(f"rule {name}"), style=style)
    numbers = [f"{key} = {each.value:g}: {each.reason}" for key, each in rule.thresholds.items()]
    silence = f'To silence it: diagnose=[gradwatch.silence("{name}", because="...")]'
    lines = [markup.line(markup.text(words)) for words in (rule.about, *numbers, silence)]
    return markup.opened_by(f"rule {name}", *lines, style=style)
