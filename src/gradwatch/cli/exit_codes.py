"""Exit codes, and errors that end a command with one."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

OK, FOUND, USAGE = 0, 1, 2
INTERNAL, INTERRUPTED, BROKEN_PIPE = 70, 130, 141


class CommandError(click.ClickException):
    """An error of the user's, said in one line; the command ends with `USAGE`."""

    exit_code = USAGE


@contextmanager
def user_errors() -> Iterator[None]:
    """Turns errors caused by the arguments into a `CommandError`, without a traceback."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        # An error of the operating system has its text and its file in two fields.
        words = f"{error.filename}: {error.strerror}" if error.strerror else str(error)
        raise CommandError(words) from error
    except (ValueError, LookupError, ImportError) as error:
        raise CommandError(str(error)) from error
