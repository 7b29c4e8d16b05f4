"""`gradwatch mcp`: runs for agents, by the Model Context Protocol."""

import functools
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import click

from gradwatch.cli.agent_tools import AgentTools
from gradwatch.cli.exit_codes import OK, CommandError
from gradwatch.cli.opening import HOME
from gradwatch.cli.output import echo

_INSTRUCTIONS = (
    "Runs of neural network trainings that gradwatch has recorded. Call list_runs first, then "
    "findings of a run that is not well: they say what is wrong, where, since when, and what to do."
)


@click.command(short_help="Serve runs to agents over stdio (Model Context Protocol).")
@click.argument("directory", metavar="[RUNS]", type=click.Path(path_type=Path), required=False)
@click.option("--skill", is_flag=True, help="Print a skill file that tells agents how to do it.")
def mcp(directory: Path | None, skill: bool) -> int:
    """Serve RUNS, a directory of runs or one run, to an agent; by default runs.

    The agent starts this command itself and talks to it over stdin and stdout. The tools list_runs,
    summary, findings, series and compare read runs and change nothing; an answer has at most
    16 kB.
    """
    if skill:
        echo((files("gradwatch.cli") / "skill.md").read_text("utf-8").rstrip())
        return OK
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ModuleNotFoundError as error:
        raise CommandError(
            f"gradwatch mcp needs {error.name}: pip install 'gradwatch[mcp]'"
        ) from error
    from gradwatch import __version__

    tools = AgentTools(directory or (HOME if HOME.is_dir() else Path()))
    server = MCPServer("gradwatch", instructions=_INSTRUCTIONS, version=__version__)
    for tool in (tools.list_runs, tools.summary, tools.findings, tools.series, tools.compare):
        server.tool(structured_output=False)(_told_errors(tool, ToolError))
    server.run("stdio")
    return OK


def _told_errors(tool: Callable[..., str], error: type[Exception]) -> Callable[..., str]:
    """The tool; the agent is told its `CommandError`s, and of other errors that there was one."""

    @functools.wraps(tool)
    def told(*args: object, **kwargs: object) -> str:
        try:
            return tool(*args, **kwargs)
        except CommandError as mistake:
            raise error(mistake.message) from None

    return told
