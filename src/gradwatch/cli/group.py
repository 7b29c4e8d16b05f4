"""The command of commands: their order, and how every one of them ends."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from gradwatch.cli.faults import BROKEN_PIPE, FINE, INTERNAL, INTERRUPTED, USAGE
from gradwatch.cli.text import echo, printable


class _ReaderGoneError(Exception):
    """Nobody reads what is written to stdout any more."""


class Group(click.Group):
    """Lists its commands in the order given, and turns every end into an exit code.

    A mistake of the user's is one line on stderr that begins with `gradwatch:`. A
    reader that goes away (`| head`) ends the command silently, and so does Ctrl-C.
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
            # Under another name: click would end with 1, which here means a finding.
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
            return _say(f"{error.format_message()} See {where} --help.")
        except click.ClickException as error:
            return _say(error.format_message(), error.exit_code)
        except (click.Abort, KeyboardInterrupt):
            return INTERRUPTED
        except (_ReaderGoneError, BrokenPipeError):
            # The interpreter would flush what is left once more when it ends, and complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return BROKEN_PIPE
        except OSError as error:
            return _say(f"{error.filename or ''}: {error.strerror or error}".lstrip(": "))
        except Exception:
            # A mistake of ours. Python would end with 1, which here means a finding.
            traceback.print_exc()
            return INTERNAL
        return code if isinstance(code, int) else FINE


def _say(message: str, code: int = USAGE) -> int:
    line = " ".join(message.split())
    echo(f"gradwatch: {printable(line)}", err=True)
    return code


def _prepare(stream: Any) -> None:
    """Whatever the encoding lacks is spelled out, rather than an error in mid-output."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")
