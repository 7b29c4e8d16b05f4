"""The loop of `gradwatch top`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TextIO

from gradwatch.read import Run
from gradwatch.view.glance.patterns import selector
from gradwatch.view.terminal.head import Shown
from gradwatch.view.terminal.keys import Keys
from gradwatch.view.terminal.lines import page_of, screen
from gradwatch.view.terminal.looking import Looking
from gradwatch.view.terminal.tty import Terminal
from gradwatch.view.terminal.wishes import Wishes

if TYPE_CHECKING:
    from rich.text import Text


def top(run: Run, wishes: Wishes, *, every: float = 1.0, rank: int | None = None) -> None:
    """Show a run on the terminal that stdout is, until the user has seen enough.

    Args:
        run: by `gradwatch.open`.
        wishes: what to show at first.
        every: seconds between two looks at the run.
        rank: the process of a parallel training; None for the first.

    Raises:
        KeyboardInterrupt: by Ctrl-C; the terminal is as it was before.
        ValueError: a pattern of the wishes is none.
    """
    terminal = Terminal()
    looking = Looking(run, rank, every, terminal.wake)
    chosen = selector(wishes.patterns)
    try:
        with terminal:
            looking.start(chosen)
            _go_on(terminal, looking, wishes, every)
    finally:
        # After the terminal is as it was: what is being read may take a moment.
        looking.stop()


def _go_on(terminal: Terminal, looking: Looking, wishes: Wishes, every: float) -> None:
    keys, paint, mistake = Keys(), painter(sys.stdout), ""
    while not wishes.quit:
        size = terminal.size
        message = mistake or looking.fault
        encoding = sys.stdout.encoding or "ascii"
        shown = Shown(looking.standing, looking.findings, wishes, message, encoding)
        terminal.paint(paint(screen(shown, size.columns, size.lines)), size)
        layers = len(looking.standing.layers) if looking.standing else 0
        page = page_of(shown, size.columns, size.lines)
        for key in keys.of(terminal.wait(every)):
            before, wishes = wishes, wishes.pressed(key, layers, page)
            mistake = ""
            if wishes.patterns != before.patterns:
                try:
                    looking.show(selector(wishes.patterns))
                except ValueError as error:
                    wishes, mistake = before.pressed("escape", layers, page), str(error)


def painter(output: TextIO) -> Callable[[Sequence[Text]], list[str]]:
    """Turns lines into what a terminal is sent for them: with colours unless `NO_COLOR` is set."""
    from rich.console import Console

    console = Console(file=output, force_terminal=True, force_jupyter=False, highlight=False)

    def painted(line: Text) -> str:
        with console.capture() as captured:
            console.print(line, end="", soft_wrap=True)
        return captured.get()

    return lambda lines: [painted(line) for line in lines]
