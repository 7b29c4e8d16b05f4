"""`gradwatch top`: a run in the terminal, kept up to date."""

import os
import sys
from pathlib import Path

import click

from gradwatch.cli import options
from gradwatch.cli.exit_codes import FOUND, OK
from gradwatch.cli.opening import choose_rank, open_or_wait
from gradwatch.cli.output import echo, echo_json, stdout_width
from gradwatch.view.terminal import NETWORK, ORDERS, ViewOptions


@click.command(short_help="Watch a run in the terminal: losses, findings, layers.")
@options.run_argument()
@options.interval("--every", 1.0)
@click.option(
    "--sort",
    type=click.Choice(list(ORDERS)),
    default=NETWORK,
    show_default=True,
    help="Sort the layers by this number, the largest first, or in network order.",
)
@click.option("--reverse", is_flag=True, help="Reverse the order.")
@options.sites
@options.rank
@click.option("--once", is_flag=True, help="Print everything once and exit, as into a pipe.")
@options.wait
@options.as_json
def top(
    run: Path,
    every: float,
    sort: str,
    reverse: bool,
    patterns: tuple[str, ...],
    rank: int | None,
    once: bool,
    wait: bool,
    as_json: bool,
) -> int:
    """Show the losses, the findings and the layers of RUN, and keep them up to date.

    The small bars show the L2 norm of the layer's gradient over time, on a logarithmic
    scale. In them, _ stands for 0 and ! for steps with NaN or infinite elements. update/w is
    the L2 norm of the update relative to the norm of the weights.

    Keys: n g u w z x sort the layers by network order, gradient, update/w, weight, zeros and
    NaN/Inf; r reverses the order; / filters by patterns such as conv*/kernel !bias, and Esc
    shows all layers again; arrows, PgUp, PgDn, Home and End scroll; q or Ctrl-C quits.

    If stdout is not a terminal, everything is printed once. The exit code is then 1 if the
    run is damaged.
    """
    selector = options.selector(patterns)
    view = ViewOptions(order=sort, reverse=reverse, patterns=patterns)
    with open_or_wait(run, wait, every) as opened:
        chosen = None if rank is None else choose_rank(opened, rank)
        if not (once or as_json) and sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
            from gradwatch.view.terminal import run_top

            run_top(opened, view, every=every, rank=chosen)
            return OK
        from gradwatch.diagnosis import findings_of
        from gradwatch.view.data import ProgressReader
        from gradwatch.view.terminal import TopFrame, frame_facts, frame_text

        progress = ProgressReader(opened, chosen).read(selector)
        frame = TopFrame(
            progress, findings_of(opened), view, encoding=sys.stdout.encoding or "ascii"
        )
    if as_json:
        echo_json(frame_facts(frame))
    else:
        echo(frame_text(frame, sys.stdout, stdout_width()).removesuffix("\n"))
    return FOUND if progress.damage else OK
