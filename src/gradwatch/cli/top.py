"""`gradwatch top`: a run in the terminal, as it goes on."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gradwatch.cli import options
from gradwatch.cli.faults import FINE, FOUND
from gradwatch.cli.json_text import dumps
from gradwatch.cli.opening import open_or_wait, rank_of
from gradwatch.cli.run_table import colours, width
from gradwatch.cli.text import echo
from gradwatch.view.terminal import NETWORK, ORDERS, Wishes

if TYPE_CHECKING:
    from rich.text import Text


@click.command(short_help="A run in the terminal, as it goes on: layers, norms, findings.")
@options.run_argument()
@click.option(
    "--every",
    type=click.FloatRange(min=0.05),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to look.",
)
@click.option(
    "--sort",
    type=click.Choice(list(ORDERS)),
    default=NETWORK,
    show_default=True,
    help="What to order the layers by: the largest first, or in network order.",
)
@click.option("--reverse", is_flag=True, help="The other way round.")
@options.sites
@options.rank
@click.option("--once", is_flag=True, help="Print it once and end, as when piped.")
@click.option("--wait", is_flag=True, help="Wait for a run that has not begun.")
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
    """Show RUN and go on showing it: loss, findings, and its layers in network order.

    The small bars are the L2 norm of the layer's gradient over time, on a logarithmic scale; in
    them _ is 0 and ! a stretch with NaN or infinite elements. update/w is the L2 norm of the
    update relative to that of the weights.

    Keys: n g u w z x order the layers by network, gradient, update/w, weight, zeros, NaN/Inf;
    r reverses; / filters by patterns such as conv*/kernel !bias, Esc shows all again; arrows, PgUp,
    PgDn, Home, End scroll; q or Ctrl-C ends.

    Printed once, with all layers, if stdout is no terminal. The exit code is then 1 if the run
    is damaged.
    """
    selector = options.selector(patterns)
    wishes = Wishes(order=sort, reverse=reverse, patterns=patterns)
    with open_or_wait(run, wait, every) as opened:
        chosen = None if rank is None else rank_of(opened, rank)
        if not (once or as_json) and sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
            from gradwatch.view.terminal import top as show

            show(opened, wishes, every=every, rank=chosen)
            return FINE
        from gradwatch.diagnosis import findings_of
        from gradwatch.view.glance import Watcher
        from gradwatch.view.terminal import Shown, lines

        standing = Watcher(opened, chosen).look(selector)
        encoding = sys.stdout.encoding or "ascii"
        shown = Shown(standing, findings_of(opened), wishes, encoding=encoding)
    if as_json:
        echo(dumps(lines.facts_of(shown), indent=1))
    else:
        _print(lines.everything(shown, width()))
    return FOUND if standing.damage else FINE


def _print(lines: Sequence[Text]) -> None:
    from gradwatch.view.terminal import painter

    paint = painter(sys.stdout)
    for line in paint(lines) if colours() else [line.plain for line in lines]:
        echo(line.rstrip())
