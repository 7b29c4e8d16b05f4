"""Everything about a run except its numbers over time."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from gradwatch.core import Kind
from gradwatch.diagnosis import Finding, facts_of_rules, known_findings
from gradwatch.read import ALL
from gradwatch.util import counted, duration
from gradwatch.view.data.health import health_of
from gradwatch.view.data.labels import menu_of, tensor_kinds
from gradwatch.view.data.numbers import number_sites
from gradwatch.view.data.plain import Answer, number
from gradwatch.view.data.rank_data import processes
from gradwatch.view.data.run_view import FIRST, RunView
from gradwatch.view.data.told_facts import told_facts, told_in_words
from gradwatch.view.text import ranks_in_words
from gradwatch.watches.budget import cost


def overview(view: RunView, findings: Sequence[Finding], *, complete: bool = True) -> Answer:
    """`RunData` of `types.ts`; `complete` says whether the whole run has been diagnosed."""
    run = view.run
    steps = run.steps()
    # Only what is known already: a page asks for this again and again.
    came_to = known_findings(run, max_rows=-1).verdict
    return {
        "id": view.id,
        "name": view.name,
        "status": str(run.status),
        "health": health_of(run, findings if findings or complete else None).facts(),
        "started": run.started,
        "duration": run.duration,
        "first_step": int(steps[0]) if steps.size else None,
        "last_step": int(steps[-1]) if steps.size else None,
        "steps": int(run.measured_steps.size),
        "ranks": list(run.ranks),
        "rank": FIRST if view.rank is None else str(view.rank),
        "processes": processes(view),
        "epochs": [
            {
                "epoch": e.number,
                "first": e.first_step,
                "last": e.last_step,
                "exact": e.is_exact,
            }
            for e in run.epochs
        ],
        "kinds": kinds_of(view),
        "numbers": [{"kind": str(s.kind), "path": s.path} for s in number_sites(view)],
        "meaning": run.meaning,
        "findings": [finding_facts(finding) for finding in findings],
        "findings_complete": complete,
        "rules": facts_of_rules(findings),
        "learning": None if came_to is None else came_to.facts(),
        "facts": facts_of(view),
        "cost": cost.in_words(run.facts.get("cost")),
        "damage": [f"{damage.file.name}: {damage.what}" for damage in run.damage],
        "lost_rows": run.lost_rows,
        "pictured": run.pictured(rank=view.rank) if run.ranks else [],
    }


def kinds_of(view: RunView) -> list[Answer]:
    """The kinds that have a heatmap, with their statistics."""
    counts: dict[Kind, int] = {}
    for site in view.run.site_order:
        counts[site.kind] = counts.get(site.kind, 0) + 1
    return [
        {
            "kind": str(kind),
            "label": kind.label,
            "statistics": menu_of(kind, with_ratio=Kind.WEIGHT in counts),
            "sites": counts[kind],
        }
        for kind in tensor_kinds()
        if kind in counts
    ]


def finding_facts(finding: Finding) -> Answer:
    """`Finding` of `types.ts`."""
    evidence = {
        name: value if isinstance(value, str) else number(value)
        for name, value in finding.evidence.items()
    }
    return {**finding.facts(), "evidence": evidence}


def facts_of(view: RunView) -> list[Answer]:
    """Facts for people, the most important first."""
    run = view.run
    facts = _mapping(run.facts)
    fits = facts.get("fits")
    fit = _mapping(fits[-1] if isinstance(fits, list) and fits else None)
    model = _mapping(facts.get("model") or fit.get("model"))
    loss, optimizer = _mapping(model.get("loss")), _mapping(model.get("optimizer"))
    environment = _mapping(fit.get("environment"))
    watched = fit.get("watch")
    imported = _mapping(fit.get("imported"))
    begun = (
        ""
        if run.started is None
        else time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(run.started))
    )
    known = {
        **told_in_words(told_facts(run)),
        "started": begun,
        "took": duration(run.duration),
        "steps": _steps(view),
        "optimizer": _optimizer(optimizer),
        "loss": loss.get("name"),
        "batch size": model.get("batch_size"),
        "precision": model.get("precision"),
        "measured": fit.get("every"),
        "watched": "; ".join(map(str, watched)) if isinstance(watched, list) else "",
        "rows": counted(run.rows, "row"),
        "processes": _processes(view),
        "numbers of": _whose(view),
        "fits": facts.get("fit_count") if facts.get("fit_count", 1) != 1 else "",
        "imported": f"from {imported.get('tool')}: {imported.get('from')}" if imported else "",
        "made with": ", ".join(f"{k} {v}" for k, v in environment.items() if k != "machine"),
        "machine": environment.get("machine"),
    }
    return [{"name": name, "value": str(value)} for name, value in known.items() if value]


def _steps(view: RunView) -> str:
    steps = view.run.steps()
    if not steps.size:
        return "none yet"
    return f"to {int(steps[-1]):,}, {view.run.measured_steps.size:,} of them measured"


def _processes(view: RunView) -> str:
    """The statuses of several processes; empty for one."""
    each = view.run.rank_statuses
    return ranks_in_words(each) if len(each) > 1 else ""


def _whose(view: RunView) -> str:
    if len(view.run.ranks) < 2:
        return ""
    if view.rank == ALL:
        return "all ranks: outputs merged, losses averaged, of variables the first rank's"
    if view.rank is None:
        return f"rank {view.one_rank}; of what it has not recorded, the first rank that has"
    return f"rank {view.rank}"


def _optimizer(about: Mapping[str, Any]) -> str:
    if not about.get("name"):
        return ""
    rate = about.get("learning_rate")
    is_rate = isinstance(rate, int | float) and not isinstance(rate, bool)
    words = [str(about["name"])] + [f"learning rate {rate:.4g}"] * is_rate
    if about.get("is_scheduled"):
        words.append("scheduled")
    return ", ".join(words)


def _mapping(value: Any) -> Mapping[str, Any]:
    """A value of `run.json`, which may be damaged."""
    return value if isinstance(value, Mapping) else {}
