"""`gradwatch compare`: runs side by side."""

import math
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import click
import numpy as np
from numpy.typing import NDArray

from gradwatch.cli import options
from gradwatch.cli.exit_codes import FOUND, OK, CommandError, user_errors
from gradwatch.cli.opening import run_place
from gradwatch.cli.output import echo, echo_json, echo_table, style
from gradwatch.read import Comparison, Run
from gradwatch.read import compare as compare_runs
from gradwatch.read import open as open_place
from gradwatch.util import TextColumn, compact, counted, printable, without_root
from gradwatch.view.data import gradient_kind

Entry = dict[str, Any]
Values = NDArray[np.float64]
Row = tuple[Values, NDArray[np.bool_], Values]
"""Values of runs by columns, whether they were measured, and the last one of each run."""
_STEP_COLUMNS, _FRACTION_COLUMNS = 1000, 100


@click.command(short_help="Compare runs.")
@click.argument("runs", metavar="RUN...", nargs=-1, type=click.Path(path_type=Path))
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
    runs: tuple[Path, ...],
    kind: str | None,
    patterns: tuple[str, ...],
    statistic: str | None,
    align: Literal["step", "fraction"],
    fail_on: float | None,
    as_json: bool,
) -> int:
    """Compare a statistic of each site of the first RUN with the others'; a directory stands for
    all runs in it.

    Sites are matched by path; or else by path without the model's name and Keras's counters; or
    else by position and shape. In long runs, and where not every step was measured, neighbouring
    steps are averaged. The largest ratio is that of the larger to the smaller value where a run
    differs most from the first. The last value of a run is that at its own last step; the
    difference is that at the last step that both have.
    """
    with ExitStack() as stack, user_errors():
        opened = _opened(runs, stack)
        kind = kind or str(gradient_kind(opened[0].sites()) or "gradient")
        sites = opened[0].sites(kind)
        # Fractions of training match only in columns that all runs have measured.
        measured = [len(run.steps(kind)) for run in opened]
        columns = _STEP_COLUMNS if align == "step" else min(_FRACTION_COLUMNS, *measured)
        found = compare_runs(
            *opened,
            kind=kind,
            statistic=statistic,
            pattern=options.selector(patterns),
            align=align,
            max_cells=max(1, columns * len(sites)),
        )
    if as_json:
        echo_json(_facts(found))
    else:
        _print(found)
    if fail_on is None:
        return OK
    ratios = [entry["largest_ratio"] or 1.0 for entry in _entries(found)]
    return FOUND if max(ratios, default=1.0) >= fail_on else OK


def _opened(places: tuple[Path, ...], stack: ExitStack) -> list[Run]:
    runs: list[Run] = []
    for place in places:
        found = open_place(run_place(place))
        stack.callback(found.close)
        runs.extend([found] if isinstance(found, Run) else found)
    if len(runs) < 2:
        raise CommandError(f"compare takes two runs or more. Received: {counted(len(runs), 'run')}")
    return runs


def _facts(found: Comparison) -> Entry:
    is_number = found.kind.is_number
    return {
        "runs": found.names,
        "kind": str(found.kind),
        "statistic": found.statistic,
        "align": found.align,
        "numbers": [_facts(each) for each in found.numbers],
        "model": None if is_number else _entry(found, *_model(found)),
        "sites": [
            {
                "path": site.path,
                "matched_by": str(by),
                "counterparts": [own[i].path for own in found.counterparts[1:]],
                **_entry(found, *_site(found, i)),
            }
            for i, (site, by) in enumerate(zip(found.sites, found.matched_by, strict=True))
        ],
        "only": {name: [site.path for site in own] for name, own in found.only.items()},
    }


def _entries(found: Comparison) -> list[Entry]:
    """Those of the model, unless these are single numbers, and of the sites."""
    rows = [_site(found, i) for i in range(len(found.sites))]
    if not found.kind.is_number:
        rows.insert(0, _model(found))
    return [_entry(found, *row) for row in rows]


def _model(found: Comparison) -> Row:
    return found.model, found.model_measured, found.model_last


def _site(found: Comparison, i: int) -> Row:
    return found.values[:, i], found.measured[:, i], found.last[:, i]


def _entry(found: Comparison, values: Values, measured: NDArray[np.bool_], last: Values) -> Entry:
    """The last values of runs, those in the last column that all have, and where they differ
    most."""
    shared = np.flatnonzero(measured.all(axis=0))
    common: list[Any] = values[:, shared[-1]].tolist() if len(shared) else [None] * len(values)
    first, *others = values
    pairs = [
        (_ratio(first[c], own[c]), run, int(c))
        for run, own in enumerate(others, 1)
        for c in np.flatnonzero(measured[0] & measured[run])
    ]
    # Of equal ratios the first, where the runs begin to differ.
    largest, run, column = max(pairs, key=lambda pair: pair[0], default=(None, 0, 0))
    return {
        "last": [own if measured[run].any() else None for run, own in enumerate(last.tolist())],
        "common": common,
        "common_at": float(found.position[shared[-1]]) if len(shared) else None,
        "common_difference": common[1] - common[0] if len(shared) else None,
        "largest_ratio": largest,
        "largest_ratio_at": None if largest is None else float(found.position[column]),
        "largest_ratio_of": None if largest is None else found.names[run],
        "compared": len(shared),
    }


def _ratio(a: float, b: float) -> float:
    """How many times the smaller magnitude the larger one is; 1 if they are equal."""
    small, large = sorted((abs(a), abs(b)))
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 1.0
    if math.isnan(a) or math.isnan(b):
        return math.inf
    if a * b < 0 or small == 0:
        return math.inf
    return large / small


def _print(found: Comparison) -> None:
    base, *others = map(printable, found.names)
    for each in found.numbers:
        _print_table(each)
        echo("")
    title = f"{found.kind} {found.statistic}: {', '.join(others)} compared with {base}"
    echo(style(title, bold=True))
    _print_table(found)
    echo(printable(found.matching), err=True)
    for name, own in found.only.items():
        if own:
            echo(f"only in {printable(name)}: {counted(len(own), 'site')}", err=True)


def _print_table(found: Comparison) -> None:
    names = [printable(name) for name in found.names]
    entries = _entries(found)
    paths = without_root([site.path for site in found.sites])
    labels = [printable(path) for path in paths]
    labels = labels if found.kind.is_number else ["model", *labels]
    columns = [
        TextColumn(str(found.kind) if found.kind.is_number else "site", labels, left=True, weight=0)
    ]
    for i, name in enumerate(names):
        cells = [compact(e["last"][i]) for e in entries]
        columns.append(TextColumn(f"last of {name}", cells, weight=8))
    if len(names) == 2:
        cells = [_signed(e["common_difference"]) for e in entries]
        columns.append(TextColumn("difference", cells, weight=5))
    cells = [_times(e["largest_ratio"]) for e in entries]
    columns.append(TextColumn("largest ratio", cells, weight=6))
    if len(names) > 2:
        cells = [printable(e["largest_ratio_of"] or "-") for e in entries]
        columns.append(TextColumn("of", cells, left=True, weight=4))
    cells = [_place(e["largest_ratio_at"], found.align) for e in entries]
    columns.append(TextColumn("at step" if found.align == "step" else "at", cells, weight=3))
    echo_table(columns)
    if len(names) == 2 and (words := _where_common(found, entries)):
        echo(words)


def _where_common(found: Comparison, entries: list[Entry]) -> str:
    """Where the differences are; empty if all are those of the last values."""
    known = [e for e in entries if e["common_at"] is not None]
    if all(np.array_equal(e["common"], e["last"], equal_nan=True) for e in known):
        return ""
    ends = sorted({e["common_at"] for e in known})
    if len(ends) > 1:
        return "Differences are at the last step that both runs have of each."
    begin, end = ends[0], ends[0] + found.width
    if found.align == "fraction":
        where = f"at {begin:.0%} to {end:.0%} of training"
    elif found.width == 1:
        where = f"at step {begin:,.0f}"
    else:
        where = f"in steps {begin:,.0f} to {end - 1:,.0f}"
    return f"Differences are {where}, the last that both runs have."


def _signed(value: float | None) -> str:
    return "-" if value is None else ("+" if value > 0 else "") + compact(value)


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:,.3f}" if ratio < 1e4 else compact(ratio)


def _place(position: float | None, align: str) -> str:
    if position is None:
        return "-"
    return f"{position:,.0f}" if align == "step" else f"{position:.1%}"
