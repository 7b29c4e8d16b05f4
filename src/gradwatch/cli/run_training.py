"""`gradwatch run`: train a script under the monitor."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gradwatch.cli import diagnosis_report
from gradwatch.cli.output import echo
from gradwatch.util import counted

if TYPE_CHECKING:
    from gradwatch.integrations.checking import Outcome


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
@click.option("-m", "is_module", is_flag=True, help="SCRIPT is a module, as in python -m.")
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(
    directory: Path | None,
    every: int | None,
    is_module: bool,
    script: str,
    arguments: tuple[str, ...],
) -> int:
    """Run SCRIPT with its ARGUMENTS to its end, and record its training.

    The script need not be changed: every fit of a Keras model and every torch optimizer is
    watched, also those that trainers such as transformers and Lightning make. Options come
    before SCRIPT; what follows it is the script's. In several processes:
    torchrun --nproc-per-node 2 -m gradwatch run train.py.

    The exit code is that of the script; after Ctrl-C, 130.
    """
    if not is_module and not Path(script).is_file():
        raise click.BadParameter(f"File {script!r} does not exist.", param_hint="'SCRIPT'")
    # Imported late: it imports the monitor, which the other commands do not need.
    from gradwatch.integrations.checking import ScriptTraining, run_script

    training = ScriptTraining(directory, every=every)
    outcome = run_script(script if is_module else Path(script), arguments, training)
    if training.is_reported:
        _report(script if is_module else Path(script).name, outcome)
    return outcome.exit_code


def _report(name: str, outcome: "Outcome") -> None:
    echo("")
    if outcome.steps:
        extent = counted(outcome.steps, "training step")
        diagnosis_report.print_report(name, outcome.findings, extent, outcome.verdict)
    else:
        echo("No training was seen: no fit of a Keras model, no step of a torch optimizer.")
