"""`gradwatch view`: the runs in a web browser."""

import os
import re
from pathlib import Path

import click

from gradwatch.cli import options
from gradwatch.cli.exit_codes import OK, CommandError, user_errors
from gradwatch.cli.opening import HOME, run_place
from gradwatch.cli.output import echo
from gradwatch.read import Run, Runs, is_run
from gradwatch.read import open as open_place
from gradwatch.store.remote import as_remote
from gradwatch.util import printable

_PORT = 6007
_PREFIX = re.compile(r"(/[A-Za-z0-9._~@%-]+)+", re.ASCII)
TOKEN = "GRADWATCH_TOKEN"
"""The variable by which a program that starts the viewer gives it the token of its link."""


@click.command(short_help="Show runs in a web browser.")
@click.argument("directory", metavar="[RUNS]", type=click.Path(path_type=Path), required=False)
@click.option(
    "--port", type=click.IntRange(0, 65535), help="The port; by default 6007 or the next free one."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--allow-remote", is_flag=True, help="Allow a --host that other machines can reach.")
@click.option("--no-browser", is_flag=True, help="Only print the link.")
@click.option(
    "--url-prefix",
    default="",
    metavar="PATH",
    help="The path at which a proxy serves it, such as /user/me/gradwatch.",
)
@options.rank
def view(
    directory: Path | None,
    port: int | None,
    host: str,
    allow_remote: bool,
    no_browser: bool,
    url_prefix: str,
    rank: int | None,
) -> int:
    """Show RUNS in a web browser: a directory of runs or one run; by default runs.

    A directory without runs shows the first run when it begins. The server listens on this
    machine only, and answers nobody without the link that it prints. It changes nothing. Press
    Ctrl-C to end it.
    """
    place = run_place(directory) if directory else (HOME if HOME.is_dir() else Path())
    check_viewer()
    from gradwatch.view.web import Server, is_loopback, is_reached_by_ssh, open_browser, tunnel

    with user_errors():
        found = _opened(place)
    if not is_loopback(host) and not allow_remote:
        raise CommandError(
            f"--host {host} lets others on the network reach the server, unencrypted: anybody "
            "who reads the traffic can read the link's token. If you want that, add "
            "--allow-remote. It is safer to use ssh -L 6007:localhost:6007 to this machine."
        )
    # A URL is shown without the credentials that may be in it.
    given = str(getattr(found, "url", place))
    prefix, token = _prefix(url_prefix), os.environ.get(TOKEN) or None
    server = Server(found, given, host, _PORT if port is None else port, rank, prefix, token)
    with user_errors():
        taken = server.listen(next_free=port is None)
    echo(f"gradwatch shows {printable(given)} at\n\n    {server.link}\n")
    if isinstance(found, Runs) and not len(found):
        echo("There is no run in it yet. The first one appears on the page by itself.")
    if not is_loopback(host):
        echo("Anybody who has this link can look too, and the traffic is not encrypted.")
    if is_reached_by_ssh() and is_loopback(host):
        no_browser = True
        echo(f"To open it on your own machine, run this there first: {tunnel(server.port)}")
    echo("Press Ctrl-C to end.")
    if no_browser:
        server.run(taken)
    else:
        with open_browser(server.link):
            server.run(taken)
    return OK


def _prefix(given: str) -> str:
    """The path of a proxy without the slash at its end; a CommandError if it is none."""
    prefix = given.rstrip("/")
    if prefix and not _PREFIX.fullmatch(prefix):
        raise CommandError(
            "--url-prefix takes a path that begins with a slash, of letters, digits and "
            f"-._~@%: /user/me/gradwatch. Received: {given!r}"
        )
    return prefix


def _opened(place: Path) -> Run | Runs:
    """The run or the runs at a place. A folder may still be empty, and `runs` be missing."""
    if as_remote(place) is None and (place.is_dir() or place == HOME) and not is_run(place):
        return Runs(place)
    return open_place(place)


def check_viewer(otherwise: str = "") -> None:
    """That all the viewer consists of is there; a CommandError if not, with what to do then."""
    try:
        import starlette
        import uvicorn

        from gradwatch.view.web import NotBuiltError, load
    except ModuleNotFoundError as error:
        words = f"The viewer needs {error.name}: pip install 'gradwatch[view]'"
        raise CommandError(f"{words}\n{otherwise}".strip()) from error
    del starlette, uvicorn
    try:
        load()
    except NotBuiltError as error:
        raise CommandError(f"{error}\n{otherwise}".strip()) from error
