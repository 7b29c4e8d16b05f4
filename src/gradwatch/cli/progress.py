"""Progress on stderr, where that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(title: str) -> Iterator[Callable[[float, float], None]]:
    """A bar, gone when the work is done; tell it how much is done, of how much.

    Example:

    >>> from gradwatch.cli.progress import progress
    >>> with progress("Reading") as tell:
    ...     tell(1, 2)
    """
    if not sys.stderr.isatty():
        yield lambda done, of: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(escape(title), total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)
