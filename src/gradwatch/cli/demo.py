"""`gradwatch demo`: a small training, and all ways to look at it."""

import os
import shlex
import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import click

from gradwatch.cli.exit_codes import OK, CommandError, user_errors
from gradwatch.cli.output import echo
from gradwatch.cli.view import check_viewer, view
from gradwatch.util import bytes_

_BACKENDS = ("jax", "torch", "tensorflow")


@click.command(short_help="Train a small network and show what was recorded.")
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where to write runs/demo and report.html; by default a new temporary directory.",
)
@click.option("--no-view", is_flag=True, help="Only train; do not start the viewer.")
@click.option("--no-browser", is_flag=True, help="Start the viewer, but only print its link.")
@click.option("--port", type=click.IntRange(0, 65535), help="The port of the viewer, as of view.")
@click.pass_context
def demo(
    context: click.Context,
    directory: Path | None,
    no_view: bool,
    no_browser: bool,
    port: int | None,
) -> int:
    """Train a small network on digits that are drawn here, and show the run in the viewer.

    It takes half a minute and downloads nothing. It needs Keras and JAX, torch or TensorFlow;
    KERAS_BACKEND chooses among them. The run stays in its directory afterwards.
    """
    _choose_backend()
    if not no_view:
        check_viewer("Without it: gradwatch demo --no-view")
    # Imported late: it imports the monitor, which the other commands do not need.
    from gradwatch import digits

    place = directory or Path(tempfile.mkdtemp(prefix="gradwatch-demo-"))
    backend = os.environ["KERAS_BACKEND"]
    echo(f"Training a small network with Keras on {backend}; its run goes to {place / 'runs'}.\n")
    with user_errors():
        run = digits.train(place / "runs" / "demo")
    _say_what_there_is(run, place, _report(run, place / "report.html"))
    if not no_view:
        echo("")
        context.invoke(view, directory=place / "runs", port=port, no_browser=no_browser)
    return OK


def _choose_backend() -> None:
    """Settle on a backend of Keras that is installed, before Keras is imported."""
    if find_spec("keras") is None:
        raise CommandError("The demo trains a Keras model: pip install 'gradwatch[jax,view]'")
    chosen = os.environ.get("KERAS_BACKEND")
    installed = [name for name in _BACKENDS if find_spec(name)]
    if chosen and chosen not in installed:
        raise CommandError(
            f"KERAS_BACKEND is {chosen}, which is not installed or not known to gradwatch. "
            f"Installed: {', '.join(installed) or 'none'}."
        )
    if not installed:
        raise CommandError("Keras needs a backend: pip install 'gradwatch[jax]'")
    os.environ["KERAS_BACKEND"] = chosen or installed[0]


def _report(run: Path, file: Path) -> Path | None:
    """Write the report, if the front end that it consists of is there."""
    from gradwatch.view.report import report
    from gradwatch.view.web import NotBuiltError

    try:
        return Path(report(run, file))
    except NotBuiltError as error:
        echo(f"\nThere is no report.html. {error}")
        return None


def _say_what_there_is(run: Path, place: Path, written: Path | None) -> None:
    size = sum(file.stat().st_size for file in run.rglob("*") if file.is_file())
    program = _program()
    board = "norms and histograms in TensorBoard"
    if find_spec("tensorboard") is None:
        board += ", after pip install tensorboard"
    ways = {
        f"{program} view {place / 'runs'}": "in the browser: every layer at every step",
        f"{program} top {run}": "in the terminal, updated during training",
        f"{program} show {run}": "a table of the layers, with their gradients over time",
        f"{program} diagnose {run}": "what is wrong, where, and what to do",
        f"tensorboard --logdir {place / 'runs'}": board,
        f"gradwatch.open({str(run)!r})": "in Python: series, histograms, SQL, data frames",
        f"{run / 'summaries.csv'}": "the numbers as one table",
        f"{run / 'pictures'}": "the kernels of the first layer after each epoch",
    }
    if written is not None:
        ways = {str(written): "the run in one file, to open in a browser or to send", **ways}
    echo(f"\nThe run is in {run} ({bytes_(size)}). Ways to look at it:\n")
    width = max(map(len, ways))
    for what, why in ways.items():
        echo(f"  {what:{width}}  {why}")


def _program() -> str:
    """How this program is called from here."""
    own = Path(sys.argv[0])
    found = shutil.which("gradwatch")
    if found and Path(found).resolve() == own.resolve():
        return "gradwatch"
    if own.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m gradwatch"
    here = Path.cwd()
    return shlex.quote(str(own.relative_to(here) if own.is_relative_to(here) else own))
