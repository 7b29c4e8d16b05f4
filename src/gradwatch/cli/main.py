"""The command `gradwatch`."""

import sys
from importlib import import_module
from pathlib import Path

import click

from gradwatch.cli.check import check
from gradwatch.cli.compare import compare
from gradwatch.cli.demo import demo
from gradwatch.cli.diagnose import diagnose
from gradwatch.cli.exit_codes import user_errors
from gradwatch.cli.export import export
from gradwatch.cli.group import Group
from gradwatch.cli.import_tensorboard import import_tensorboard
from gradwatch.cli.ls import ls
from gradwatch.cli.mcp import mcp
from gradwatch.cli.repair import repair
from gradwatch.cli.report import report
from gradwatch.cli.rules import rules
from gradwatch.cli.run_training import run
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
    """Look at the runs that gradwatch has recorded.

    RUN is the directory of a run, such as runs/mnist, or its URL. If the current directory
    has a directory runs, mnist is enough.

    Exit codes: 0 if all is well; 1 if something was found (damage, a crash, a difference);
    2 if the command is wrong or there is no such run, and if diagnose or check find an error;
    130 after Ctrl-C.
    """
    if modules:
        sys.path.insert(0, str(Path.cwd()))
    with user_errors():
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
    rules,
    run,
    compare,
    report,
    export,
    sql,
    verify,
    repair,
    import_tensorboard,
    upload,
    mcp,
    demo,
):
    main.add_command(command)
