"""`gradwatch view`: the runs in a web browser."""

from __future__ import annotations

from pathlib import Path

import click

from gradwatch.cli import options
from gradwatch.cli.faults import FINE, Fault, asking
from gradwatch.cli.opening import HOME, place_of
from gradwatch.cli.text import echo, printable
from gradwatch.read import runs

_PORT = 6007


@click.command(short_help="Look at runs in a web browser.")
@click.argument("directory", metavar="[RUNS]", type=click.Path(path_type=Path), required=False)
@click.option("--port", type=click.IntRange(0, 65535), help="By default 6007, or the next free.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--allow-remote", is_flag=True, help="Let --host be what others can reach.")
@click.option("--no-browser", is_flag=True, help="Only print the link.")
@options.rank
def view(
    directory: Path | None,
    port: int | None,
    host: str,
    allow_remote: bool,
    no_browser: bool,
    rank: int | None,
) -> int:
    """Show RUNS (a directory of runs, or one run; by default: runs) in a web browser.

    The server is for you alone: it listens on this machine, and whoever does not have the
    link that it prints gets nothing. It changes nothing. Ctrl-C ends it.
    """
    place = place_of(directory) if directory else (HOME if HOME.is_dir() else Path())
    with asking():
        try:
            from gradwatch.view.web import NotBuiltError, Server, is_loopback, load, open_browser
        except ModuleNotFoundError as error:
            raise _not_installed(error) from error
        _check_installed()
        found = runs.open(place)
    if not is_loopback(host) and not allow_remote:
        raise Fault(
            f"--host {host} lets others on the network reach the server, unencrypted: whoever "
            "reads the traffic reads the link's token too. If you want that, say --allow-remote; "
            "safer is ssh -L 6007:localhost:6007 to this machine."
        )
    try:
        load()
    except NotBuiltError as error:
        raise Fault(str(error)) from error
    # A URL is shown without the credentials that may be in it.
    given = str(getattr(found, "url", place))
    server = Server(found, given, host, _PORT if port is None else port, rank)
    with asking():
        taken = server.listen(next_free=port is None)
    echo(f"gradwatch shows {printable(given)} at\n\n    {server.link}\n")
    if not is_loopback(host):
        echo("Whoever has this link can look too, and what is sent is not encrypted.")
    echo("Ctrl-C ends it.")
    if no_browser:
        server.run(taken)
    else:
        with open_browser(server.link):
            server.run(taken)
    return FINE


def _check_installed() -> None:
    try:
        import starlette
        import uvicorn
    except ModuleNotFoundError as error:
        raise _not_installed(error) from error
    del starlette, uvicorn


def _not_installed(error: ModuleNotFoundError) -> Fault:
    return Fault(f"The viewer needs {error.name}: pip install 'gradwatch[view]'")
