"""`gradwatch show`: a run at a glance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gradwatch.cli import options
from gradwatch.cli import run_summary as overview
from gradwatch.cli.faults import FINE, FOUND, asking
from gradwatch.cli.json_text import dumps
from gradwatch.cli.opening import open_run, rank_of
from gradwatch.cli.run_summary import chosen_sites
from gradwatch.cli.show_text import COLUMNS, show_overview, show_statistic
from gradwatch.cli.text import echo
from gradwatch.core import STATISTICS, Kind
from gradwatch.read import Run
from gradwatch.view.glance import layer_rows as layers
from gradwatch.view.glance import queries, trends

_COLUMNS_OF_JSON = 100


@click.command(short_help="A run at a glance: health, gradients, layers.")
@options.run_argument()
@options.kind
@options.sites
@click.option("--statistic", metavar="NAME", help=f"One of: {', '.join(STATISTICS)}.")
@options.rank
@options.as_json
def show(
    run: Path,
    kind: str | None,
    patterns: tuple[str, ...],
    statistic: str | None,
    rank: int | None,
    as_json: bool,
) -> int:
    """Show RUN: what it is, its health, and its layers in network order.

    The small bars are the L2 norm of the gradient over time, on a logarithmic scale; in
    them _ is 0 and ! a stretch with NaN or infinite elements. With --kind or --statistic,
    a table of that statistic of each site instead. The exit code is 1 if the run is damaged.
    """
    with open_run(run) as opened:
        chosen = rank_of(opened, rank)
        if kind is not None or statistic is not None:
            facts = _statistic(opened, kind, patterns, statistic, chosen, as_json)
            show_it = show_statistic
        else:
            facts = _overview(opened, patterns, chosen, as_json)
            show_it = show_overview
        damaged = bool(opened.damage)
    if as_json:
        echo(dumps(facts, indent=1))
    else:
        show_it(facts)
    return FOUND if damaged else FINE


def _overview(run: Run, patterns: tuple[str, ...], rank: int, as_json: bool) -> dict[str, Any]:
    columns = _COLUMNS_OF_JSON if as_json else COLUMNS
    sites = chosen_sites(run, options.selector(patterns))
    wanted = set(sites)
    newest = {s: n for s, n in queries.newest(run, rank).items() if s in wanted}
    records = {s: r for s, r in queries.records(run, rank).items() if s in wanted}
    nonfinite = {site: record.nonfinite for site, record in records.items()}
    return {
        **overview.facts_of(run),
        "rank": rank,
        "health": overview.health_of(run, records),
        "numbers": trends.numbers_of(run, sites, columns, rank),
        "gradients": overview.extremes(newest, records),
        "layers": layers.layers_of(run, sites, newest, nonfinite, columns, rank),
    }


def _statistic(
    run: Run,
    kind: str | None,
    patterns: tuple[str, ...],
    statistic: str | None,
    rank: int,
    as_json: bool,
) -> dict[str, Any]:
    """The first, last, lowest and highest value of a statistic of each site."""
    selector = options.selector(patterns)
    kind = kind or str(layers.gradient_kind(run.sites()) or "gradient")
    sites = chosen_sites(run, selector, kind)
    name = statistic or (sites[0].kind if sites else Kind.GRADIENT).default_statistic
    columns = _COLUMNS_OF_JSON if as_json else COLUMNS
    with asking():
        over_time = trends.trends_of(run, sites, name, columns, rank)
        spans = queries.spans(run, sites, name, rank)
    entries = [
        {"path": site.path, **vars(spans[site]), "trend": over_time[site]}
        for site in sites
        if site in spans
    ]
    return {"run": run.name, "kind": kind, "statistic": name, "sites": entries}
