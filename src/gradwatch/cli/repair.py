"""`gradwatch repair`: put a run in order after its processes have ended."""

from pathlib import Path

import click

from gradwatch.cli import options
from gradwatch.cli.exit_codes import OK, CommandError, user_errors
from gradwatch.cli.opening import local_place, open_run
from gradwatch.cli.output import echo, echo_json, progress
from gradwatch.cli.verify import verified
from gradwatch.maintain import QUARANTINE, LiveRunError, VerifyReport
from gradwatch.maintain import repair as repair_run
from gradwatch.read import Status
from gradwatch.store import parse_journal, parse_manifest
from gradwatch.util import printable


@click.command(short_help="Seal open files, set damaged ones aside.")
@options.run_argument()
@click.option("--dry-run", is_flag=True, help="Print what would be done, and do nothing.")
@options.as_json
def repair(run: Path, dry_run: bool, as_json: bool) -> int:
    """Put RUN in order: seal the files that ended processes left open, set damaged ones aside.

    Nothing is deleted: damaged files are moved to the directory quarantine in the run.
    Whole files stay as they are, so the run shows the same before and after.
    """
    with open_run(local_place(run)) as opened:
        place = opened.path
        if opened.status is Status.LIVE:
            raise CommandError(f"{place} is being written. Repair it when its training has ended.")
    plan = _plan(verified(place))
    if not as_json:
        for step in plan:
            echo(("would " if dry_run else "to do: ") + printable(step))
    done = None
    if not dry_run and plan:
        try:
            with user_errors(), progress("Repairing") as advance:
                done = repair_run(place, lambda i, total, name: advance(i, total))
        except LiveRunError as error:
            raise CommandError(str(error)) from None
    if as_json:
        actions = ("sealed", "rebuilt", "quarantined")
        echo_json({"path": place, "plan": plan, **{a: getattr(done, a, []) for a in actions}})
    elif done is not None:
        echo(printable(str(done)))
    elif not plan:
        echo(f"{printable(str(place))}: nothing to do")
    return OK


def _plan(report: VerifyReport) -> list[str]:
    """What a repair will do, in words."""
    steps = []
    damaged = {damage.file for damage in report.damage}
    for path in sorted(damaged):
        if parse_journal(path.name) and path in report.leftovers:
            continue  # see below
        if not path.exists():
            steps.append(f"note in the manifest that {path.name} is missing")
        elif parse_manifest(path.name):
            steps.append(f"move {path.name} to {QUARANTINE} and write it anew")
        elif path.name.startswith("events.out."):
            continue  # TensorBoard can read it except for the damaged records
        else:
            steps.append(f"move {path.name} to {QUARANTINE}")
    for path in report.leftovers:
        is_whole = path not in damaged and path not in report.torn
        more = "" if is_whole else f", at least its whole records, and move it to {QUARANTINE}"
        steps.append(f"seal {path.name}{more}")
    return steps
