"""`gradwatch diagnose`: what is wrong with a run, and what to do."""

from pathlib import Path

import click

from gradwatch.cli import diagnosis_report, options
from gradwatch.cli.opening import open_run
from gradwatch.cli.output import echo_json
from gradwatch.diagnosis import all_findings
from gradwatch.util import counted


@click.command(short_help="Find out what is wrong with a run, since when, and what to do.")
@options.run_argument()
@options.strict
@options.as_json
def diagnose(run: Path, strict: bool, as_json: bool) -> int:
    """Diagnose RUN from what was recorded.

    The rules are the same as during training, and rules that the monitor silenced stay
    silent. Findings of the training itself are printed too: it may have seen steps that
    were trained again, from a checkpoint.

    The exit code is 2 if there is an error and 0 if there is none; with --strict, it is 1
    if there are only warnings.
    """
    with open_run(run) as opened:
        known = all_findings(opened)
        steps, name = len(opened.measured_steps), opened.name
    found, came_to = known.findings or [], known.verdict
    if as_json:
        facts = diagnosis_report.facts(found, strict, came_to)
        echo_json({"run": name, "steps": steps, **facts})
    else:
        diagnosis_report.print_report(name, found, counted(steps, "measured step"), came_to)
    return diagnosis_report.exit_code(found, strict)
