"""`gradwatch compare`: two runs side by side."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import click
import numpy as np

from gradwatch.cli import options
from gradwatch.cli.faults import FINE, FOUND, asking
from gradwatch.cli.json_text import dumps
from gradwatch.cli.opening import open_run
from gradwatch.cli.run_table import Column, show, style
from gradwatch.cli.text import compact, counted, echo, printable
from gradwatch.core import Kind
from gradwatch.read import Comparison
from gradwatch.read import compare as put_side_by_side
from gradwatch.view.glance import gradient_kind

_COLUMNS = 1000
_COLUMNS_OF_FRACTIONS = 100


@click.command(short_help="Put two runs side by side.")
@options.run_argument("a")
@options.run_argument("b")
@options.kind
@options.sites
@click.option("--statistic", default=None, metavar="NAME", help="By default l2; of losses, value.")
@click.option(
    "--align",
    type=click.Choice(["step", "fraction"]),
    default="step",
    show_default=True,
    help="Compare the same steps, or the same share of training.",
)
@click.option(
    "--fail-on",
    type=click.FloatRange(min=1, min_open=True),
    metavar="RATIO",
    help="Exit with 1 if a value is this many times another, or more.",
)
@options.as_json
def compare(
    a: Path,
    b: Path,
    kind: str | None,
    patterns: tuple[str, ...],
    statistic: str | None,
    align: Literal["step", "fraction"],
    fail_on: float | None,
    as_json: bool,
) -> int:
    """Compare B with A: a statistic of each site that both have.

    Where training was not measured at every step, or is long, neighbouring steps are
    averaged. The ratio is that of the larger to the smaller value where they differ most.
    """
    with open_run(a) as first, open_run(b) as second:
        kind = kind or str(gradient_kind(first.sites()) or "gradient")
        with asking():
            sites = first.sites(kind)
            name = statistic or (sites[0].kind if sites else Kind.GRADIENT).default_statistic
            # Shares of training meet only in columns that both runs have measured.
            most = min(_COLUMNS_OF_FRACTIONS, *(len(run.steps(kind)) for run in (first, second)))
            columns = _COLUMNS if align == "step" else most
            found = put_side_by_side(
                first,
                second,
                kind=kind,
                statistic=name,
                pattern=options.selector(patterns),
                align=align,
                max_cells=max(1, columns * len(sites)),
            )
    entries = [_entry(found, i) for i in range(len(found.sites))]
    if as_json:
        echo(dumps(_facts(found, entries), indent=1))
    else:
        _show(found, entries)
    limit = math.inf if fail_on is None else fail_on
    return FOUND if any((e["largest_ratio"] or 1.0) >= limit for e in entries) else FINE


def _entry(found: Comparison, i: int) -> dict[str, Any]:
    first, second = found.values[0, i], found.values[1, i]
    both = np.flatnonzero(~np.isnan(first) & ~np.isnan(second))
    ratios = [_ratio(first[c], second[c]) for c in both]
    # The largest; and of equal ones the first, where the runs part.
    largest = max(ratios, default=None)
    at = None if largest is None else both[ratios.index(largest)]
    return {
        "path": found.sites[i].path,
        "last": [_last(first, both), _last(second, both)],
        "last_difference": float(second[both[-1]] - first[both[-1]]) if len(both) else None,
        "largest_ratio": largest,
        "largest_ratio_at": None if at is None else float(found.position[at]),
        "compared": len(both),
    }


def _ratio(a: float, b: float) -> float:
    """How many times the smaller magnitude the larger one is; 1 for alike."""
    small, large = sorted((abs(a), abs(b)))
    if a == b:
        return 1.0
    if a * b < 0 or small == 0:
        return math.inf
    return large / small


def _last(values: Any, both: Any) -> float | None:
    return float(values[both[-1]]) if len(both) else None


def _facts(found: Comparison, entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "runs": found.names,
        "kind": str(found.kind),
        "statistic": found.statistic,
        "align": found.align,
        "sites": entries,
        "only": {name: [site.path for site in own] for name, own in found.only.items()},
    }


def _show(found: Comparison, entries: list[dict[str, Any]]) -> None:
    a, b = map(printable, found.names)
    echo(style(f"{found.kind} {found.statistic}: {b} compared with {a}", bold=True))
    where = "at step" if found.align == "step" else "at"
    show(
        [
            Column("site", [printable(e["path"]) for e in entries], left=True, weight=0),
            Column(f"last of {a}", [compact(e["last"][0]) for e in entries], weight=8),
            Column(f"last of {b}", [compact(e["last"][1]) for e in entries], weight=8),
            Column("difference", [_signed(e["last_difference"]) for e in entries], weight=5),
            Column("largest ratio", [_times(e["largest_ratio"]) for e in entries], weight=6),
            Column(where, [_place(e["largest_ratio_at"], found.align) for e in entries], weight=3),
        ]
    )
    for name, own in found.only.items():
        if own:
            echo(f"only in {printable(name)}: {counted(len(own), 'site')}", err=True)


def _signed(value: float | None) -> str:
    return "-" if value is None else ("+" if value > 0 else "") + compact(value)


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:,.3f}" if ratio < 1e4 else compact(ratio)


def _place(position: float | None, align: str) -> str:
    if position is None:
        return "-"
    return f"{position:,.0f}" if align == "step" else f"{position:.1%}"
