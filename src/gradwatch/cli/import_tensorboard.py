"""`gradwatch import-tensorboard`: event files into a run."""

from __future__ import annotations

from pathlib import Path

import click

from gradwatch.cli import options
from gradwatch.cli.faults import FINE, FOUND, Fault, asking
from gradwatch.cli.json_text import dumps
from gradwatch.cli.progress import progress
from gradwatch.cli.text import counted, echo, printable
from gradwatch.integrations import tensorboard_import as tensorboard


@click.command(name="import-tensorboard", short_help="Read event files into a new run.")
@click.argument("logdir", type=click.Path(path_type=Path))
@options.run_argument()
@options.as_json
def import_tensorboard(logdir: Path, run: Path, as_json: bool) -> int:
    """Read the TensorBoard event files in LOGDIR into a new RUN.

    Scalars are kept under their tags as kind scalar, and of histograms what is exactly
    known: count, smallest and largest element, and the moments where they are given.
    Subdirectories such as train and validation become parts of the run. Texts, images and
    graphs are passed over. Damaged records are named and passed over too; the exit
    code is then 1. Needs TensorBoard: pip install 'gradwatch[tensorboard]'.
    """
    if not logdir.exists():
        raise Fault(f"There is no directory {logdir}.")
    files = [path for own in tensorboard.event_files(logdir).values() for path in own]
    total, done = sum(path.stat().st_size for path in files), 0
    with asking(), progress("Importing") as tell:

        def advance(size: int) -> None:
            nonlocal done
            done += size
            tell(done, total)

        report = tensorboard.import_tensorboard(logdir, run, advance)
    if as_json:
        echo(
            dumps(
                {
                    "path": report.directory,
                    "files": report.files,
                    "records": report.records,
                    "numbers": report.numbers,
                    "series": len(report.tags),
                    "replaced": report.replaced,
                    "passed_over": report.other,
                    "damage": [{"file": d.file, "what": d.what} for d in report.damage],
                },
                indent=1,
            )
        )
    else:
        _show(report)
    return FOUND if report.damage else FINE


def _show(report: tensorboard.ImportReport) -> None:
    what = f"{counted(report.numbers, 'number')} of {len(report.tags):,} series"
    echo(f"{what} from {counted(report.files, 'file')} in {printable(str(report.directory))}")
    if report.replaced:
        echo(
            f"{counted(report.replaced, 'number')} logged again at the same step: the later counts"
        )
    if report.other:
        names = ", ".join(f"{counted(n, printable(name))}" for name, n in report.other.items())
        echo(f"passed over: {names}")
    for damage in report.damage:
        echo(f"damaged: {printable(damage.file.name)}: {printable(damage.what)}", err=True)
