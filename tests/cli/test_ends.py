"""How commands begin and end: help, exit codes, pipes, mistakes."""

import re
import subprocess
import sys

import pytest

from tests.cli.support import ROOT, arrays, command, invoke, make_run, spawn, strict, write

COMMANDS = (
    "ls",
    "show",
    "tail",
    "top",
    "view",
    "diagnose",
    "check",
    "rules",
    "run",
    "compare",
    "report",
    "export",
    "sql",
    "verify",
    "repair",
    "import-tensorboard",
    "upload",
    "mcp",
    "demo",
)


def test_help_lists_the_commands_in_the_order_of_their_use():
    lines = invoke("--help").stdout.partition("Commands:")[2].splitlines()
    # Long descriptions go on in lines that are indented further.
    assert [line.split()[0] for line in lines if re.match(r"  \S", line)] == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name):
    text = invoke(name, "--help").stdout
    assert f"gradwatch {name}" in text or f"main {name}" in text
    assert "..." not in text.partition("Options:")[0].replace("RUN...", "").replace("]...", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("shwo",), "Did you mean 'show'?"),
        (("show",), "Missing argument 'RUN'"),
        (("show", "/no/such/run"), "There is no directory '/no/such/run'"),
        (("verify", "/no/such/run"), "There is no directory"),
        (("repair", "/no/such/run"), "There is no directory"),
        (("export", "/no/such/run"), "There is no directory"),
        (("sql", "/no/such/run", "select 1"), "There is no directory"),
        (("export", "x", "--steps", "b:a"), "not a range of steps"),
        (("export", "x", "--steps", "9:3"), "ends before it begins"),
        (("show", "x", "--no-such-option"), "--no-such-option"),
    ],
)
def test_a_mistake_is_one_line_on_stderr_and_code_2(arguments, words):
    result = invoke(*arguments, code=2)
    assert result.stdout == ""
    assert result.stderr.startswith("gradwatch: ")
    assert result.stderr.count("\n") == 1
    assert words in result.stderr


def test_a_reader_that_goes_away_ends_the_command_silently(run):
    for arguments in (("export", run), ("sql", run, "select * from summaries"), ("show", run)):
        process = spawn(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 141
        process.stderr.close()


def test_python_m_gradwatch_is_the_command():
    process = subprocess.run(command("--version"), capture_output=True, text=True)
    assert process.returncode == 0
    assert process.stdout.startswith("gradwatch, version ")


def test_the_command_line_imports_neither_frameworks_nor_the_database():
    code = "import gradwatch.cli.main, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    slow = {"tensorflow", "keras", "jax", "torch", "tensorboard", "duckdb", "pandas", "rich"}
    assert not slow & set(loaded)


@pytest.mark.usefixtures("unsealed")
def test_verify_is_0_for_whole_1_for_damage_2_for_no_run(tmp_path):
    make_run(tmp_path / "a")
    make_run(tmp_path / "b")
    (report,) = strict(invoke("verify", tmp_path / "a", "--json").stdout)
    assert report["whole"]
    assert report["rows"] == 13 * 40
    (journal,) = (tmp_path / "b").glob("*.gwj")
    data = bytearray(journal.read_bytes())
    data[len(data) // 2] ^= 4
    journal.write_bytes(data)
    result = invoke("verify", tmp_path, code=1)
    assert f"{tmp_path / 'a'}: whole" in result.stdout
    assert "b: damaged in 1 place" in result.stdout
    reports = strict(invoke("verify", tmp_path / "a", tmp_path / "b", "--json", code=1).stdout)
    assert [r["whole"] for r in reports] == [True, False]
    (tmp_path / "empty").mkdir()
    invoke("verify", tmp_path / "empty", code=2)


def killed_run(directory, flip=False):
    """A run whose process was killed; perhaps with a damaged record."""
    code = (
        "import sys, os; from pathlib import Path; from tests.cli.support import arrays, write; "
        "write(Path(sys.argv[1]), arrays()); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code, directory], cwd=ROOT)
    (journal,) = directory.glob("*.gwj")
    if flip:
        data = bytearray(journal.read_bytes())
        data[len(data) // 2] ^= 4
        journal.write_bytes(data)
    return journal


@pytest.mark.parametrize("flip", [False, True])
def test_repair_says_what_it_does_and_the_run_shows_the_same_before_and_after(tmp_path, flip):
    journal = killed_run(tmp_path / "a", flip)
    before = invoke("export", tmp_path / "a").stdout
    planned = invoke("repair", tmp_path / "a", "--dry-run").stdout
    assert f"would seal {journal.name}" in planned
    assert journal.exists()
    done = strict(invoke("repair", tmp_path / "a", "--json").stdout)
    assert done["sealed"] == [journal.name]
    assert len(done["quarantined"]) == flip
    assert not journal.exists()
    assert invoke("export", tmp_path / "a").stdout == before
    invoke("verify", tmp_path / "a", code=0)
    assert "nothing to do" in invoke("repair", tmp_path / "a").stdout


def test_repair_leaves_a_live_run_alone(tmp_path):
    writer = write(tmp_path / "a", arrays())
    files = {path: path.read_bytes() for path in (tmp_path / "a").iterdir()}
    assert "is being written" in invoke("repair", tmp_path / "a", code=2).stderr
    assert {path: path.read_bytes() for path in (tmp_path / "a").iterdir()} == files
    writer.close()
