"""The group of all commands: their order, and the exit code of each."""

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from gradwatch.cli.exit_codes import BROKEN_PIPE, INTERNAL, INTERRUPTED, OK, USAGE
from gradwatch.cli.output import echo
from gradwatch.util import printable


class _ReaderGoneError(Exception):
    """The reader of stdout closed the pipe."""


class Group(click.Group):
    """Lists the commands in the order in which they were added, and sets the exit code.

    An error of the user is one line on stderr that begins with `gradwatch:`. A command
    ends silently after Ctrl-C, and if the reader closes the pipe (`| head`).
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands:
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.commands, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"There is no command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # As another exception: click would exit with 1, which here means a finding.
            raise _ReaderGoneError from None

    def main(self, args: Sequence[str] | None = None, *rest: Any, **more: Any) -> NoReturn:
        _prepare(sys.stdout)
        _prepare(sys.stderr)
        more["standalone_mode"] = False
        sys.exit(self._run(args, *rest, **more))

    def _run(self, args: Sequence[str] | None, *rest: Any, **more: Any) -> int:
        try:
            code = super().main(args, *rest, **more)
            sys.stdout.flush()
        except click.UsageError as error:
            where = error.ctx.command_path if error.ctx else "gradwatch"
            return _fail(f"{error.format_message()} See {where} --help.")
        except click.ClickException as error:
            return _fail(error.format_message(), error.exit_code)
        except (click.Abort, KeyboardInterrupt):
            return INTERRUPTED
        except (_ReaderGoneError, BrokenPipeError):
            # The interpreter flushes stdout when it ends, and would complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return BROKEN_PIPE
        except OSError as error:
            return _fail(f"{error.filename or ''}: {error.strerror or error}".lstrip(": "))
        except Exception as error:
            if _is_ctrl_c(error):
                return INTERRUPTED
            # Not 1, as Python would exit with: that means a finding here.
            traceback.print_exc()
            return INTERNAL
        return code if isinstance(code, int) else OK


def _is_ctrl_c(error: Exception) -> bool:
    """Whether DuckDB raises that the user has interrupted a query."""
    return type(error).__name__ == "InterruptException" or "Query interrupted" in str(error)


def _fail(message: str, code: int = USAGE) -> int:
    line = " ".join(message.split())
    echo(f"gradwatch: {printable(line)}", err=True)
    return code


def _prepare(stream: Any) -> None:
    """Characters that the encoding lacks are escaped: they must not end the output."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")
