"""`gradwatch check`: does this script train?"""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from gradwatch.cli import options, verdict
from gradwatch.cli.json_text import dumps
from gradwatch.cli.text import counted, echo, printable

STEPS = 200


@click.command(
    short_help="Run a training script for some steps, and say whether it trains.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("--steps", default=STEPS, show_default=True, type=click.IntRange(1), help="To run.")
@click.option("--strict", is_flag=True, help="End with 1 if there are warnings.")
@click.option("--directory", type=click.Path(path_type=Path), help="Keep the recorded run there.")
@options.as_json
@click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def check(
    steps: int,
    strict: bool,
    directory: Path | None,
    as_json: bool,
    script: Path,
    arguments: tuple[str, ...],
) -> int:
    """Run SCRIPT, with its ARGUMENTS, for a number of training steps.

    The script is not edited: every fit of a Keras model is watched, and every torch
    optimizer with its module. It is ended after the steps; what it prints passes through,
    and the report comes after it, with --json as its last lines.

    The exit code is 0 if no error was found, 2 if one was or the script failed, and with
    --strict 1 if there are warnings.
    """
    # Late: it takes the monitor along, which the other commands do without.
    from gradwatch.integrations.checking import run_script

    with tempfile.TemporaryDirectory(prefix="gradwatch-check-") as temporary:
        outcome = run_script(script, arguments, steps, directory or Path(temporary))
    found = outcome.findings
    if as_json:
        facts = {"script": str(script), "steps": outcome.steps, "failure": outcome.failure}
        echo(dumps({**facts, **verdict.facts_of(found, strict)}, indent=1))
    else:
        echo("")
        if outcome.steps:
            verdict.show(script.name, found, counted(outcome.steps, "training step"))
        if outcome.failure:
            echo(f"The script failed. {printable(outcome.failure)}")
        elif not outcome.steps:
            echo("No training was seen: no fit of a Keras model, no step of a torch optimizer.")
    failed = bool(outcome.failure) or not outcome.steps
    return verdict.SICK if failed else verdict.code_of(found, strict)
