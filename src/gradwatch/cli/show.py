"""`gradwatch show`: a run in numbers."""

from pathlib import Path
from typing import Any

import click

from gradwatch.cli import options, show_text
from gradwatch.cli.exit_codes import FOUND, OK, CommandError, user_errors
from gradwatch.cli.opening import choose_rank, choose_sites, open_run
from gradwatch.cli.output import echo_json
from gradwatch.core import STATISTICS, Kind
from gradwatch.diagnosis import all_findings
from gradwatch.view.data import cast_rows, gradient_kind, show_data, statistic_data

_JSON_COLUMNS, _TEXT_COLUMNS = 100, 24
"""The number of values in a series over time, at most."""


@click.command(short_help="Show a run: health, losses, gradients, layers.")
@options.run_argument()
@options.kind
@options.sites
@click.option("--statistic", metavar="NAME", help=f"One of: {', '.join(STATISTICS)}.")
@click.option("--casts", is_flag=True, help="What casts to float16, bfloat16, float8 would lose.")
@options.rank
@options.as_json
def show(
    run: Path,
    kind: str | None,
    patterns: tuple[str, ...],
    statistic: str | None,
    casts: bool,
    rank: int | None,
    as_json: bool,
) -> int:
    """Show what RUN is, its health, and its layers in network order.

    The small bars show the L2 norm of the gradient over time, on a logarithmic scale. In
    them, _ stands for 0 and ! for steps with NaN or infinite elements.

    More than 20 layers are folded: blocks into one row, and neighbouring blocks into a range, with
    the smallest and the largest of their numbers. The bars are then those of the layer that is
    named as the outlier: its gradient is least like those of the other layers.

    With --kind or --statistic, print a table of that statistic for each site instead. With --casts,
    the shares of the elements other than 0 that a cast to a narrower number format would make 0,
    subnormal (fewer bits) or too large, from the last histogram of each site.

    The exit code is 1 if the run is damaged.
    """
    columns = _JSON_COLUMNS if as_json else _TEXT_COLUMNS
    if casts and statistic is not None:
        raise CommandError("--casts and --statistic are different tables. Choose one of them.")
    data: dict[str, Any]
    with open_run(run) as opened:
        chosen = choose_rank(opened, rank)
        pattern = options.selector(patterns)
        if casts:
            sites = choose_sites(opened, pattern, kind)
            data = {"run": opened.name, "sites": cast_rows(opened, sites, chosen)}
            if not data["sites"]:
                raise CommandError(
                    "There is no histogram of these sites with an element other than 0. "
                    "Record some with histogram=True."
                )
            print_text = show_text.print_casts
        elif kind is None and statistic is None:
            sites = choose_sites(opened, pattern)
            known = all_findings(opened)
            data = show_data(opened, sites, known.findings or [], columns, chosen)
            data["learning"] = None if known.verdict is None else known.verdict.facts()
            print_text = show_text.print_overview
        else:
            kind = kind or str(gradient_kind(opened.sites()) or "gradient")
            sites = choose_sites(opened, pattern, kind)
            name = statistic or (sites[0].kind if sites else Kind.GRADIENT).default_statistic
            with user_errors():
                rows = statistic_data(opened, sites, name, columns, chosen)
            data = {"run": opened.name, "kind": kind, "statistic": name, "sites": rows}
            print_text = show_text.print_statistic
        damaged = bool(opened.damage)
    if as_json:
        echo_json(data)
    else:
        print_text(data)
    return FOUND if damaged else OK
