"""What commands print: lines, JSON, tables and progress."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import click

from gradwatch.util import TextColumn
from gradwatch.util.text_table import has_colours, table_text, terminal_width
from gradwatch.view.data import to_json


def echo(line: str, err: bool = False) -> None:
    """Print a line at once, so that a reader need not wait for a buffer to fill."""
    stream = sys.stderr if err else sys.stdout
    stream.write(f"{line}\n")
    stream.flush()


def echo_json(value: object) -> None:
    echo(to_json(value, indent=1))


def echo_table(columns: Sequence[TextColumn]) -> None:
    """Print a table: as wide as the terminal at most, and whole if it goes anywhere else."""
    echo(table_text(columns, sys.stdout).removesuffix("\n"))


def style(text: str, colour: str | None = None, bold: bool = False) -> str:
    """The text in a colour or in bold, if stdout is a terminal that shows it."""
    return click.style(text, fg=colour, bold=bold or None) if has_colours(sys.stdout) else text


def stdout_width() -> int | None:
    """The columns of the terminal; None for a file or a pipe, where nothing is cut."""
    return terminal_width(sys.stdout) if sys.stdout.isatty() else None


@contextmanager
def progress(title: str) -> Iterator[Callable[[float, float], None]]:
    """A progress bar on stderr if that is a terminal; call it with the work done and the total."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(escape(title), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
