"""Whether an agent is told what the command line says, of every program of a half.

Each program is trained with a monitor as a user would have one, and its run is asked for with the
official client of the Model Context Protocol: `pip install 'gradwatch[mcp]'`.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import gradwatch
from gradwatch.cli.agent_tools import MAX_BYTES
from gradwatch.sinks import pipeline
from gradwatch.view.data import bounded

from .program import Program
from .train import train_live

Ask = Callable[[str, dict[str, Any]], Any]


def compare(folder: Path, programs: Sequence[Program]) -> int:
    """Print what differs; returns how many answers do."""
    import anyio
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    record(folder, programs)
    command = ["-m", "gradwatch", "mcp", str(folder)]
    parameters = StdioServerParameters(command=sys.executable, args=command)

    async def session() -> tuple[int, int, int]:
        async with (
            stdio_client(parameters) as (read, write),
            ClientSession(read, write) as opened,
        ):
            await opened.initialize()
            asked = different = cut = 0
            for tool, given, wanted in questions(folder, programs):
                answer = await opened.call_tool(tool, given)
                text = answer.content[0].text
                expected = bounded(wanted, MAX_BYTES)
                is_same = not answer.is_error and alike(json.loads(text), expected)
                is_small = len(text.encode()) <= MAX_BYTES
                asked += 1
                cut += "left_out" in expected
                if not (is_same and is_small):
                    different += 1
                    print("DIFFERS", tool, given, text[:200], file=sys.stderr, flush=True)
            return asked, different, cut

    asked, different, cut = anyio.run(session)
    print(
        f"{len(programs)} programs, {asked} answers: {different} differ from the command line; "
        f"{cut} were cut to {MAX_BYTES:,} bytes."
    )
    return different


def record(folder: Path, programs: Sequence[Program]) -> None:
    """Train those that have no run there yet."""
    # On a busy machine, closing the run takes longer than it may take a training.
    pipeline.CLOSING_TIME = 60.0
    for program in programs:
        if not (folder / program.name / "run.json").exists():
            monitor = gradwatch.Monitor(folder / program.name, sinks=[gradwatch.Store()])
            with redirect_stdout(StringIO()):  # Alarms are expected.
                train_live(program, 0, monitor)


def questions(folder: Path, programs: Sequence[Program]) -> Any:
    """Tool, arguments, and what the command line answers."""
    listed = said("ls", str(folder))
    yield "list_runs", {}, {"runs": listed}
    names = {run["name"] for run in listed}
    for program in programs:
        name, run = program.name, str(folder / program.name)
        if name not in names:  # It could not be trained at all.
            print("no run ", name, file=sys.stderr, flush=True)
            continue
        yield "summary", {"run": name}, said("show", run)
        yield "findings", {"run": name}, said("diagnose", run)
        yield "series", {"run": name}, said("show", run, "--kind", "gradient")
        if program.base in names and program.base != name:
            runs = [program.base, name]
            told = said("compare", *(str(folder / each) for each in runs))
            yield "compare", {"runs": runs}, told


def alike(told: Any, expected: Any) -> bool:
    """Whether two answers are the same, but for the last digit of sums.

    DuckDB adds up in the order in which its threads are done: two calls of one command differ, too.
    """
    if isinstance(told, dict) and isinstance(expected, dict):
        return told.keys() == expected.keys() and all(alike(told[k], expected[k]) for k in told)
    if isinstance(told, list) and isinstance(expected, list):
        return len(told) == len(expected) and all(map(alike, told, expected))
    if isinstance(told, float) and isinstance(expected, float):
        return math.isclose(told, expected, rel_tol=1e-12, abs_tol=1e-15)
    return type(told) is type(expected) and told == expected


def said(command: str, *arguments: str) -> Any:
    """What a command prints as JSON, in this process; an error as its text."""
    from click.testing import CliRunner

    from gradwatch.cli.main import main

    result = CliRunner().invoke(main, [command, "--json", *arguments])
    try:
        return json.loads(result.stdout)
    except ValueError:
        raise RuntimeError(f"gradwatch {command} {arguments}: {result.output}") from None
