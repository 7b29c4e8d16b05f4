"""`gradwatch compare`: two runs side by side."""

import math
from pathlib import Path
from typing import Any, Literal

import click
import numpy as np

from gradwatch.cli import options
from gradwatch.cli.exit_codes import FOUND, OK, user_errors
from gradwatch.cli.opening import open_run
from gradwatch.cli.output import echo, echo_json, echo_table, style
from gradwatch.core import Kind
from gradwatch.read import Comparison
from gradwatch.read import compare as compare_runs
from gradwatch.util import TextColumn, compact, counted, printable, without_root
from gradwatch.view.data import gradient_kind

Entry = dict[str, Any]
_STEP_COLUMNS, _FRACTION_COLUMNS = 1000, 100


@click.command(short_help="Compare two runs.")
@options.run_argument("a")
@options.run_argument("b")
@options.kind
@options.sites
@click.option("--statistic", metavar="NAME", help="By default l2; for losses, value.")
@click.option(
    "--align",
    type=click.Choice(["step", "fraction"]),
    default="step",
    show_default=True,
    help="Compare the same steps, or the same fraction of training.",
)
@click.option(
    "--fail-on",
    type=click.FloatRange(min=1, min_open=True),
    metavar="RATIO",
    help="Exit with 1 if one value is this many times the other, or more.",
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
    """Compare a statistic of each site that runs A and B both have.

    In long runs, and where not every step was measured, neighbouring steps are averaged.
    The largest ratio is that of the larger to the smaller value where they differ most.
    """
    with open_run(a) as first, open_run(b) as second:
        kind = kind or str(gradient_kind(first.sites()) or "gradient")
        with user_errors():
            sites = first.sites(kind)
            name = statistic or (sites[0].kind if sites else Kind.GRADIENT).default_statistic
            # Fractions of training match only in columns that both runs have measured.
            measured = [len(run.steps(kind)) for run in (first, second)]
            columns = _STEP_COLUMNS if align == "step" else min(_FRACTION_COLUMNS, *measured)
            found = compare_runs(
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
        echo_json(
            {
                "runs": found.names,
                "kind": str(found.kind),
                "statistic": found.statistic,
                "align": found.align,
                "sites": entries,
                "only": {name: [site.path for site in own] for name, own in found.only.items()},
            }
        )
    else:
        _print(found, entries)
    limit = math.inf if fail_on is None else fail_on
    return FOUND if any((e["largest_ratio"] or 1.0) >= limit for e in entries) else OK


def _entry(found: Comparison, i: int) -> Entry:
    first, second = found.values[0, i], found.values[1, i]
    both = np.flatnonzero(~np.isnan(first) & ~np.isnan(second))
    ratios = [_ratio(first[c], second[c]) for c in both]
    # Of equal ratios the first, where the runs begin to differ.
    largest = max(ratios, default=None)
    last = [float(values[both[-1]]) if len(both) else None for values in (first, second)]
    return {
        "path": found.sites[i].path,
        "last": last,
        "last_difference": float(second[both[-1]] - first[both[-1]]) if len(both) else None,
        "largest_ratio": largest,
        "largest_ratio_at": None
        if largest is None
        else float(found.position[both[ratios.index(largest)]]),
        "compared": len(both),
    }


def _ratio(a: float, b: float) -> float:
    """How many times the smaller magnitude the larger one is; 1 if they are equal."""
    small, large = sorted((abs(a), abs(b)))
    if a == b:
        return 1.0
    if a * b < 0 or small == 0:
        return math.inf
    return large / small


def _print(found: Comparison, entries: list[Entry]) -> None:
    a, b = map(printable, found.names)
    echo(style(f"{found.kind} {found.statistic}: {b} compared with {a}", bold=True))
    where = "at step" if found.align == "step" else "at"
    names = without_root([e["path"] for e in entries])
    places = [_place(e["largest_ratio_at"], found.align) for e in entries]
    echo_table(
        [
            TextColumn("site", [printable(name) for name in names], left=True, weight=0),
            TextColumn(f"last of {a}", [compact(e["last"][0]) for e in entries], weight=8),
            TextColumn(f"last of {b}", [compact(e["last"][1]) for e in entries], weight=8),
            TextColumn("difference", [_signed(e["last_difference"]) for e in entries], weight=5),
            TextColumn("largest ratio", [_times(e["largest_ratio"]) for e in entries], weight=6),
            TextColumn(where, places, weight=3),
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
