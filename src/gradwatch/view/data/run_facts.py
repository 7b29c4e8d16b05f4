"""What a run is, and what is wrong with its numbers: what `gradwatch show` shows."""

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from gradwatch.core import Site
from gradwatch.diagnosis import Finding
from gradwatch.read import Run
from gradwatch.view.data import site_queries
from gradwatch.view.data.health import health_of
from gradwatch.view.data.layer_data import gradient_kind, layer_rows
from gradwatch.view.data.plain import Answer
from gradwatch.view.data.site_queries import LastMeasurement, SiteHistory
from gradwatch.view.data.told_facts import told_facts
from gradwatch.view.data.trend_data import number_rows, trends

EXTREMES = 3
"""How many of the largest and of the smallest gradients are named."""


def show_data(
    run: Run, sites: Sequence[Site], findings: Sequence[Finding], columns: int, rank: int
) -> Answer:
    """A run in numbers: facts, health, losses, extreme gradients and layers.

    `findings` are those of the whole run. `columns` is the most values of a series over time.
    """
    wanted = set(sites)
    last = {s: m for s, m in site_queries.last_measurements(run, rank).items() if s in wanted}
    histories = {s: h for s, h in site_queries.site_histories(run, rank).items() if s in wanted}
    nonfinite = {site: history.nonfinite for site, history in histories.items()}
    return {
        **run_facts(run),
        "rank": rank,
        "health": {**health_of(run, findings).facts(), **_bad_numbers(run, histories)},
        "findings": [finding.facts() for finding in findings],
        "numbers": number_rows(run, sites, columns, rank),
        "gradients": _extreme_gradients(last, histories),
        "layers": layer_rows(run, sites, last, nonfinite, columns, rank),
    }


def statistic_data(
    run: Run, sites: Sequence[Site], statistic: str, columns: int, rank: int
) -> list[Answer]:
    """The first, last, lowest and highest value of a statistic of each site, and its trend."""
    over_time = trends(run, sites, statistic, columns, rank)
    ranges = site_queries.statistic_ranges(run, sites, statistic, rank)
    return [
        {"path": site.path, **vars(ranges[site]), "trend": over_time[site]}
        for site in sites
        if site in ranges
    ]


def run_facts(run: Run) -> Answer:
    """What the run is, in a few numbers."""
    epochs = [epoch.number for epoch in run.epochs if epoch.number > 0]
    fits = run.facts.get("fits") or [{}]
    return {
        "name": run.name,
        "path": str(run.path),
        "status": str(run.status),
        "started": run.started,
        "duration": run.duration,
        "last_step": run.last_step,
        "measured_steps": len(run.measured_steps),
        "epochs": max(epochs, default=None),
        "ranks": list(run.ranks),
        "rank_statuses": [{**vars(each), "status": str(each.status)} for each in run.rank_statuses],
        "attempts": int(run.sql("select count(*) from attempts").fetchall()[0][0]),
        "sites": dict(Counter(str(site.kind) for site in run.sites())),
        "rows": run.rows,
        "bytes": directory_size(run.path),
        "cost": run.facts.get("cost"),
        "environment": fits[-1].get("environment"),
        "imported": fits[-1].get("imported"),
        "meaning": run.meaning,
        **told_facts(run),
    }


def damage_facts(run: Run) -> list[Answer]:
    """The places that cannot be read."""
    return [{"file": str(damage.file), "what": damage.what} for damage in run.damage]


def directory_size(place: Path) -> int:
    """The bytes of all files below a directory; files that vanish meanwhile do not count."""
    total = 0
    waiting = [str(place)]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    total += entry.stat(follow_symlinks=False).st_size
    return total


def _bad_numbers(run: Run, histories: Mapping[Site, SiteHistory]) -> Answer:
    kind = gradient_kind(histories)
    whole = {site: history for site, history in histories.items() if not site.is_slice}
    return {
        "nonfinite": [
            {
                "kind": str(site.kind),
                "path": site.path,
                "elements": history.nonfinite,
                "steps": history.nonfinite_steps,
                "first_step": history.first_nonfinite,
                "last_step": history.last_nonfinite,
            }
            for site, history in whole.items()
            if history.nonfinite
        ],
        "zero_gradients": [
            {"path": site.path, "steps": history.zero_steps, "of": history.steps}
            for site, history in whole.items()
            if site.kind is kind and history.zero_steps
        ],
        "lost_rows": run.lost_rows,
        "damage": damage_facts(run),
    }


def _extreme_gradients(
    last: Mapping[Site, LastMeasurement], histories: Mapping[Site, SiteHistory]
) -> dict[str, list[Answer]]:
    """The gradients that are largest and smallest at their last measured step."""
    kind = gradient_kind(last)
    own = [s for s in last if s.kind is kind and not s.is_slice and last[s].count]
    ordered = sorted(
        own, key=lambda site: -(math.inf if math.isnan(last[site].l2) else last[site].l2)
    )
    few = min(EXTREMES, (len(ordered) + 1) // 2)

    def facts(site: Site) -> Answer:
        history = histories[site]
        return {
            "path": site.path,
            "step": last[site].step,
            "l2": last[site].l2,
            "peak": history.peak,
            "peak_step": history.peak_step,
        }

    return {
        "largest": [facts(site) for site in ordered[:few]],
        "smallest": [facts(site) for site in ordered[::-1][: min(few, len(ordered) - few)]],
    }
