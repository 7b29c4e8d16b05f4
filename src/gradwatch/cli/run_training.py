"""`gradwatch run`: train a script under the monitor."""

from pathlib import Path

import click

from gradwatch.cli import diagnosis_report
from gradwatch.cli.output import echo
from gradwatch.util import counted


@click.command(
    short_help="Run a training script to its end, and record it.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    help="Where to keep the run; runs/<date>-<time> by default.",
)
@click.option(
    "--every",
    type=click.IntRange(1),
    help="Measure every so many steps, instead of as often as costs less than 1 %.",
)
@click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(directory: Path | None, every: int | None, script: Path, arguments: tuple[str, ...]) -> int:
    """Run SCRIPT with its ARGUMENTS to its end, and record its training.

    The script need not be changed: every fit of a Keras model and every torch optimizer is
    watched, also those that trainers such as transformers and Lightning make. Options come
    before SCRIPT; what follows it is the script's.

    The exit code is that of the script.
    """
    # Imported late: it imports the monitor, which the other commands do not need.
    from gradwatch.integrations.checking import ScriptTraining, run_script

    outcome = run_script(script, arguments, ScriptTraining(directory, every=every))
    echo("")
    if outcome.steps:
        extent = counted(outcome.steps, "training step")
        diagnosis_report.print_report(script.name, outcome.findings, extent, outcome.verdict)
    else:
        echo("No training was seen: no fit of a Keras model, no step of a torch optimizer.")
    return outcome.exit_code
