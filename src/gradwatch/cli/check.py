"""`gradwatch check`: does this script train?"""

import tempfile
from pathlib import Path

import click

from gradwatch.cli import diagnosis_report, options
from gradwatch.cli.output import echo, echo_json
from gradwatch.util import counted, printable


@click.command(
    short_help="Run a training script for some steps and diagnose it.",
    context_settings={"ignore_unknown_options": True},
)
@click.option(
    "--steps",
    default=200,
    show_default=True,
    type=click.IntRange(1),
    help="The number of training steps to run.",
)
@options.strict
@click.option(
    "--directory", type=click.Path(path_type=Path), help="Keep the run in this directory."
)
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
    """Run SCRIPT with its ARGUMENTS for a number of training steps, and diagnose it.

    The options below are those of gradwatch before and after SCRIPT; others are the script's.
    What comes after -- is all the script's: gradwatch check --steps 50 train.py -- --steps 9.

    The script need not be changed: every fit of a Keras model and every torch optimizer is
    watched. The script is ended after the steps. Its own output passes through; the report
    comes last, also with --json.

    The exit code is 2 if there is an error or the script failed, and 0 if not; with
    --strict, it is 1 if there are only warnings.
    """
    # Imported late: it imports the monitor, which the other commands do not need.
    from gradwatch.integrations.checking import CheckedTraining, run_script

    with tempfile.TemporaryDirectory(prefix="gradwatch-check-") as temporary:
        training = CheckedTraining(directory or Path(temporary), steps)
        outcome = run_script(script, arguments, training)
    found, came_to = outcome.findings, outcome.verdict
    if as_json:
        facts = {"script": str(script), "steps": outcome.steps, "failure": outcome.failure}
        echo_json({**facts, **diagnosis_report.facts(found, strict, came_to)})
    else:
        echo("")
        if outcome.steps:
            extent = counted(outcome.steps, "training step")
            diagnosis_report.print_report(script.name, found, extent, came_to)
        if outcome.failure:
            echo(f"The script failed. {printable(outcome.failure)}")
        elif not outcome.steps:
            echo("No training was seen: no fit of a Keras model, no step of a torch optimizer.")
    failed = bool(outcome.failure) or not outcome.steps
    return diagnosis_report.ERRORS if failed else diagnosis_report.exit_code(found, strict)
