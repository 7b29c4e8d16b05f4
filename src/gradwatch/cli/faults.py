"""Exit codes, and how a command ends that cannot do what it was asked to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

FINE, FOUND, USAGE = 0, 1, 2
INTERNAL, INTERRUPTED, BROKEN_PIPE = 70, 130, 141


class Fault(click.ClickException):
    """What is wrong, in one line, which ends the command with `USAGE`."""

    exit_code = USAGE


@contextmanager
def asking() -> Iterator[None]:
    """Around what may fail by what the user has named: no traceback for that.

    >>> from gradwatch.cli.faults import asking
    >>> with asking():
    ...     raise ValueError("There is no statistic 'l3'.")
    Traceback (most recent call last):
    gradwatch.cli.faults.Fault: There is no statistic 'l3'.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        # An error of the system's has its words and its file apart from each other.
        words = f"{error.filename}: {error.strerror}" if error.strerror else str(error)
        raise Fault(words) from error
    except (ValueError, LookupError, ImportError) as error:
        raise Fault(str(error)) from error
