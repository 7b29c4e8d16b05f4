"""What agents are told, asked by the official client of the Model Context Protocol."""

import json
import re
import shlex
import sys
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path

import anyio
import numpy as np
import pytest

import gradwatch
from gradwatch.cli.agent_tools import MAX_BYTES, AgentTools
from gradwatch.cli.exit_codes import CommandError
from gradwatch.view.data import bounded, to_json
from tests.cli.support import invoke

ODD = ["-rf", "a b;c", "größe"]


def train(place, steps=30, layers=2, bad=None):
    random = np.random.default_rng(0)
    with gradwatch.Monitor(place, every=1, sinks=[gradwatch.Store()], diagnose=False) as monitor:
        for step in range(1, steps + 1):
            gradients = {f"net/layer_{i:03}/kernel": random.normal(size=4) for i in range(layers)}
            if step == bad:
                gradients["net/layer_001/kernel"][0] = np.nan
            monitor.record(gradients=gradients, loss=1.0 / step)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("agents") / "runs"
    train(place / "well")
    train(place / "ill", bad=20)
    train(place / "large", steps=3, layers=400)
    for name in ODD:
        train(place / name, steps=2)
    return place


def asked(place, calls):
    """The results of calls of tools, in one session."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    @asynccontextmanager
    async def session():
        command = ["-m", "gradwatch", "mcp", str(place)]
        parameters = StdioServerParameters(command=sys.executable, args=command)
        async with (
            stdio_client(parameters) as (read, write),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            yield session

    async def main():
        async with session() as opened:
            names = {tool.name for tool in (await opened.list_tools()).tools}
            return names, [await opened.call_tool(name, given) for name, given in calls]

    return anyio.run(main)


def test_every_tool_answers_what_the_command_answers(place):
    well, ill = str(place / "well"), str(place / "ill")
    series = ["--kind", "gradient", "--sites", "*/layer_000/kernel", "--statistic", "rms"]
    asks = [
        (("list_runs", {}), ("ls", place)),
        (("summary", {"run": "well"}), ("show", well)),
        (("findings", {"run": "well"}), ("diagnose", well)),
        (("findings", {"run": "ill"}), ("diagnose", ill)),
        (
            ("series", {"run": "ill", "sites": "*/layer_000/kernel", "statistic": "rms"}),
            ("show", ill, *series),
        ),
        (("compare", {"runs": ["well", "ill"]}), ("compare", well, ill)),
    ]
    names, answers = asked(place, [call for call, _ in asks])
    assert names == {call[0] for call, _ in asks}
    for (call, command), answer in zip(asks, answers, strict=True):
        assert not answer.is_error, answer
        (content,) = answer.content
        expected = invoke(*command, "--json", code=code(call)).stdout
        told = json.loads(content.text)
        wanted = json.loads(expected)
        wanted = {"runs": wanted} if call[0] == "list_runs" else wanted
        assert told == bounded(wanted, MAX_BYTES), call
        assert len(content.text.encode()) <= MAX_BYTES
    found = json.loads(answers[3].content[0].text)
    assert found["verdict"] == "errors"
    assert found["findings"][0]["rule"] == "non-finite"
    assert found["findings"][0]["since"] == 20


def code(call):
    """The exit code of the command: that of a diagnosis says what was found."""
    return 2 if call == ("findings", {"run": "ill"}) else 0


HOSTILE = [
    "../agents/runs/well", "/etc/passwd", "", ".", "..", "--json", "well/", "./well", "we*", "\x00",
    "well\n", "http://evil.example/", "s3://evil/run", "x" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_name_of_a_run_is_refused(place, name):
    tools = AgentTools(place)
    for ask in (tools.summary, tools.findings, tools.series, lambda run: tools.compare([run, run])):
        with pytest.raises(CommandError, match="There is no run"):
            ask(name)


def test_a_refusal_is_an_error_of_the_tool_and_the_server_goes_on(place):
    calls = [
        ("findings", {"run": "../runs/well"}),
        ("series", {"run": "well", "kind": "nothing"}),
        ("compare", {"runs": ["well"]}),
        ("series", {"run": "well", "kind": "--help"}),
        ("findings", {"run": "well"}),
    ]
    _, answers = asked(place, calls)
    assert [answer.is_error for answer in answers] == [True, True, True, True, False]
    assert "There is no run" in answers[0].content[0].text
    assert "takes two runs or more" in answers[2].content[0].text


@pytest.mark.parametrize("name", ODD)
def test_odd_names_of_runs_are_names_and_no_options(place, name):
    tools = AgentTools(place)
    assert name in [run["name"] for run in json.loads(tools.list_runs())["runs"]]
    assert json.loads(tools.findings(name))["run"] == name
    assert [r["name"] for r in json.loads(tools.list_runs(name))["runs"]] == [name]


def test_a_large_run_fits_and_what_is_missing_is_counted(place):
    tools = AgentTools(place)
    for answer, key in ((tools.summary("large"), "layers"), (tools.series("large"), "sites")):
        assert len(answer.encode()) <= MAX_BYTES
        told = json.loads(answer)
        assert len(told[key]) + told["left_out"][key] == 400
        assert len(told[key]) >= 10


def test_one_run_is_served_too(place):
    tools = AgentTools(place / "ill")
    (run,) = json.loads(tools.list_runs())["runs"]
    assert json.loads(tools.findings(run["name"]))["verdict"] == "errors"


def test_a_report_has_at_most_so_many_bytes(place):
    run = str(place / "large")
    whole = invoke("report", run, "--format", "json").stdout_bytes
    for most in (4000, 16_000, 10**9):
        made = invoke("report", run, "--format", "json", "--max-bytes", str(most)).stdout_bytes
        assert len(made) <= most
        facts = json.loads(made)
        assert facts["run"] == "large"
        assert ("left_out" in facts) == (most < len(whole))
    said = invoke("report", run, "--format", "md", "--max-bytes", "4000", code=2).output
    assert "--max-bytes is for --format json. Received: --format md" in said


def test_bounded_answers_say_what_is_missing_wherever_it_is():
    answer = {"a": [{"b": list(range(500))} for _ in range(3)], "text": "x" * 10_000}
    for most in (300, 1000, 11_500):
        told = bounded(answer, most)
        assert len(to_json(told)) <= most
        for place, gone in told["left_out"].items():
            names = re.findall(r"[^.\[\]]+", place)
            kept, full = told, answer
            for name in names:
                index = int(name) if name.isdigit() else name
                kept, full = kept[index], full[index]
            assert len(kept) + gone == len(full)
    assert answer["text"] == "x" * 10_000
    with pytest.raises(ValueError, match="does not fit into 10 bytes"):
        bounded(answer, 10)


def test_the_commands_of_the_skill_run_as_they_are_written(place):
    skill = invoke("mcp", "--skill").stdout
    places = {"runs/NAME": "ill", "runs/GOOD": "well", "runs/BAD": "ill", "runs": ""}
    commands = [shlex.split(command) for command in re.findall(r"`gradwatch ([^`]+)`", skill)]
    of_runs = [words for words in commands if set(words) & places.keys()]
    assert {words[0] for words in of_runs} == {"ls", "diagnose", "show", "compare", "report"}
    for words in of_runs:
        arguments = [str(place / places[word]) if word in places else word for word in words]
        result = invoke(*arguments, code=2 if words[0] == "diagnose" else 0)
        assert json.loads(result.stdout), words


def test_the_skill_names_commands_and_tools_that_exist():
    skill = invoke("mcp", "--skill").stdout
    assert skill.startswith("---\nname: gradwatch\ndescription: ")
    from gradwatch.cli.main import main

    for command in re.findall(r"`gradwatch (\w+)", skill):
        assert command in main.commands
    for tool in re.findall(r"\((?:Tool: )?`(\w+)`\.\)", skill):
        assert hasattr(AgentTools, tool)
    assert (files("gradwatch.cli") / "skill.md").is_file()
    assert Path(gradwatch.__file__).exists()
