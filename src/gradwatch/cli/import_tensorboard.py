"""`gradwatch import-tensorboard`: event files into a run."""

from pathlib import Path

import click

from gradwatch.cli import options
from gradwatch.cli.exit_codes import FOUND, OK, CommandError, user_errors
from gradwatch.cli.output import echo, echo_json, progress
from gradwatch.integrations import tensorboard_import as tensorboard
from gradwatch.util import counted, printable


@click.command(name="import-tensorboard", short_help="Import TensorBoard event files as a new run.")
@click.argument("logdir", type=click.Path(path_type=Path))
@options.run_argument()
@options.as_json
def import_tensorboard(logdir: Path, run: Path, as_json: bool) -> int:
    """Import the TensorBoard event files in LOGDIR as a new RUN.

    Scalars keep their tags, with kind scalar. Of histograms, only exact numbers are kept:
    the count, the minimum and maximum, and the moments if they are there. Subdirectories
    such as train and validation become parts of the run. Texts, images and graphs are left
    out. Damaged records are named and left out; the exit code is then 1.

    Needs TensorBoard: pip install 'gradwatch[tensorboard]'.
    """
    if not logdir.exists():
        raise CommandError(f"There is no directory {logdir}.")
    files = [path for own in tensorboard.event_files(logdir).values() for path in own]
    total, done = sum(path.stat().st_size for path in files), 0
    with user_errors(), progress("Importing") as advance:

        def read(size: int) -> None:
            nonlocal done
            done += size
            advance(done, total)

        report = tensorboard.import_tensorboard(logdir, run, read)
    if as_json:
        echo_json(
            {
                "path": report.directory,
                "files": report.files,
                "records": report.records,
                "numbers": report.numbers,
                "series": len(report.tags),
                "replaced": report.replaced,
                "passed_over": report.other,
                "damage": [{"file": d.file, "what": d.what} for d in report.damage],
            }
        )
    else:
        _print(report)
    return FOUND if report.damage else OK


def _print(report: tensorboard.ImportReport) -> None:
    what = f"{counted(report.numbers, 'number')} of {len(report.tags):,} series"
    echo(f"{what} from {counted(report.files, 'file')} in {printable(str(report.directory))}")
    if report.replaced:
        echo(
            f"{counted(report.replaced, 'number')} logged again at the same step: the later counts"
        )
    if report.other:
        names = ", ".join(f"{counted(n, printable(name))}" for name, n in report.other.items())
        echo(f"left out: {names}")
    for damage in report.damage:
        echo(f"damaged: {printable(damage.file.name)}: {printable(damage.what)}", err=True)
