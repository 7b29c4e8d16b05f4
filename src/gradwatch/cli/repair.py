"""`gradwatch repair`: put a run in order whose processes are gone."""

from __future__ import annotations

from pathlib import Path

import click

from gradwatch.cli import options
from gradwatch.cli.faults import FINE, Fault, asking
from gradwatch.cli.json_text import dumps
from gradwatch.cli.opening import directory_of, open_run
from gradwatch.cli.progress import progress
from gradwatch.cli.text import echo, printable
from gradwatch.cli.verify import check
from gradwatch.maintain import Report
from gradwatch.maintain import repair_run as repairing
from gradwatch.read import Status
from gradwatch.store import parse_journal, parse_manifest


@click.command(short_help="Seal what is left over, set damage aside.")
@options.run_argument()
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@options.as_json
def repair(run: Path, dry_run: bool, as_json: bool) -> int:
    """Put RUN in order: seal what dead processes left, set damaged files aside.

    Nothing is deleted: damaged files go to the folder quarantine in the run. What is whole
    stays as it is, so the run shows the same before and after.
    """
    with open_run(directory_of(run)) as opened:
        place = opened.path
        if opened.status is Status.LIVE:
            raise Fault(f"{place} is being written. Repair it when its training has ended.")
    plan = _plan(check(place))
    done: repairing.Repair | None = None
    if not as_json:
        for step in plan:
            echo(("would " if dry_run else "to do: ") + printable(step))
    if not dry_run and plan:
        try:
            with asking(), progress("Repairing") as tell:
                done = repairing.repair(place, lambda i, of, name: tell(i, of))
        except repairing.LiveRunError as error:
            raise Fault(str(error)) from None
    if as_json:
        echo(
            dumps(
                {
                    "path": place,
                    "plan": plan,
                    "sealed": done.sealed if done else [],
                    "rebuilt": done.rebuilt if done else [],
                    "quarantined": done.quarantined if done else [],
                },
                indent=1,
            )
        )
    elif done is not None:
        echo(printable(str(done)))
    elif not plan:
        echo(f"{printable(str(place))}: nothing to do")
    return FINE


def _plan(report: Report) -> list[str]:
    """What a repair does, in words."""
    steps = []
    damaged = {damage.file for damage in report.damage}
    for path in sorted(damaged):
        if parse_journal(path.name) and path in report.leftovers:
            continue  # told below
        if not path.exists():
            steps.append(f"note in the manifest that {path.name} is missing")
        elif parse_manifest(path.name):
            steps.append(f"move {path.name} to {repairing.QUARANTINE} and write it anew")
        elif path.name.startswith("events.out."):
            continue  # TensorBoard's, and readable but for its damaged records
        else:
            steps.append(f"move {path.name} to {repairing.QUARANTINE}")
    for path in report.leftovers:
        whole = path not in damaged and path not in report.torn
        more = (
            "" if whole else f", its whole records at least, and move it to {repairing.QUARANTINE}"
        )
        steps.append(f"seal {path.name}{more}")
    return steps
