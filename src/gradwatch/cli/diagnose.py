"""`gradwatch diagnose`: what is wrong with a run, and what to do."""

from __future__ import annotations

from pathlib import Path

import click

from gradwatch.cli import options, verdict
from gradwatch.cli.json_text import dumps
from gradwatch.cli.opening import open_run
from gradwatch.cli.text import counted, echo
from gradwatch.diagnosis import findings_of


@click.command(short_help="What is wrong with a run, since when, and what to do.")
@options.run_argument()
@click.option("--strict", is_flag=True, help="End with 1 if there are warnings.")
@options.as_json
def diagnose(run: Path, strict: bool, as_json: bool) -> int:
    """Diagnose RUN from what was recorded of it.

    The rules are those that run while training. What was found then, by losses of steps
    that were not recorded, say, is reported too. Rules that the monitor was told to silence
    are silent here as well.

    The exit code is 0 if no error was found, 2 if one was, and with --strict 1 if there
    are warnings.
    """
    with open_run(run) as opened:
        found = findings_of(opened)
        steps, name = len(opened.steps()), opened.name
    if as_json:
        echo(dumps({"run": name, "steps": steps, **verdict.facts_of(found, strict)}, indent=1))
    else:
        verdict.show(name, found, f"{counted(steps, 'measured step')}")
    return verdict.code_of(found, strict)
