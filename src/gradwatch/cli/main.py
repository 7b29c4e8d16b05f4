"""The command `gradwatch`."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import click

from gradwatch.cli.check import check
from gradwatch.cli.compare import compare
from gradwatch.cli.diagnose import diagnose
from gradwatch.cli.export import export
from gradwatch.cli.faults import asking
from gradwatch.cli.group import Group
from gradwatch.cli.import_tensorboard import import_tensorboard
from gradwatch.cli.ls import ls
from gradwatch.cli.repair import repair
from gradwatch.cli.report import report
from gradwatch.cli.show import show
from gradwatch.cli.sql import sql
from gradwatch.cli.tail import tail
from gradwatch.cli.top import top
from gradwatch.cli.upload import upload
from gradwatch.cli.verify import verify
from gradwatch.cli.view import view


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="gradwatch", prog_name="gradwatch")
@click.option(
    "--import",
    "modules",
    multiple=True,
    metavar="MODULE",
    help="Import a Python module first: one that adds kinds, statistics or rules.",
)
def main(modules: tuple[str, ...]) -> None:
    """Look at what gradwatch has recorded of a training.

    RUN is a run's directory, such as runs/mnist; in a directory with the folder
    runs, mnist will do.

    Exit codes: 0 all is well; 1 something was found (damage, a crash, a difference);
    2 a mistake in the command, or no such run; of diagnose and check also an error in the
    training; 130 after Ctrl-C.
    """
    if modules:
        sys.path.insert(0, str(Path.cwd()))
    with asking():
        for module in modules:
            import_module(module)


for command in (
    ls,
    show,
    tail,
    top,
    view,
    diagnose,
    check,
    compare,
    report,
    export,
    sql,
    verify,
    repair,
    import_tensorboard,
    upload,
):
    main.add_command(command)
