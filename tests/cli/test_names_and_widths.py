"""Names that would act on a terminal do not; tables fit it; nothing is cut in a pipe."""

import csv
import io
import os
import pty
import re
import struct
import subprocess
import termios
from fcntl import ioctl

import pytest

from gradwatch.util.text import display_width
from tests.cli.support import arrays, command, invoke, make_run, spawn, strict

HOSTILE = (
    "net/\x1b[31mred\x1b[0m/kernel",
    "net/nul\x00nul/kernel",
    "net/rtl\u202egnp.exe/kernel",
    "net/new\nline\r/kernel",
    "net/[red]markup[/red]/kernel",
    "net/[link=http://x]y[/link]/kernel",
    "=cmd()|'/C calc'!A0",
    "net/\x9b31mcsi/kernel",
    "net/\ud800half/kernel",
    "net/%s%n{0}/kernel",
    "net/" + "long" * 200 + "/kernel",
    "net/日本語の層/kernel",
)
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    directory = tmp_path_factory.mktemp("runs") / "hostile"
    make_run(directory, arrays(paths=HOSTILE))
    return directory


@pytest.mark.parametrize(
    "arguments",
    [
        ("show",),
        ("show", "--kind", "weight"),
        ("tail", "-n", "99"),
        ("sql", "select distinct path from summaries"),
        ("export", "--format", "csv"),
        ("export", "--format", "jsonl"),
        ("show", "--json"),
        ("verify",),
        ("ls",),
    ],
)
def test_no_raw_escape_of_a_name_reaches_the_output(hostile, arguments):
    name, *rest = arguments
    result = invoke(name, hostile, *rest)
    assert not RAW.search(result.stdout + result.stderr)


def test_names_are_shown_escaped_and_markup_is_not_understood(hostile):
    text = invoke("show", hostile, "--kind", "weight").stdout
    assert r"\x1b[31mred\x1b[0m" in text
    assert r"rtl\u202egnp.exe" in text
    assert r"new\nline\r" in text
    assert "[red]markup[/red]" in text
    assert "[link=http://x]y[/link]" in text
    assert "long" * 200 in text  # into a pipe, nothing is cut


def test_hostile_names_survive_json_and_are_safe_in_a_spreadsheet(hostile):
    facts = strict(invoke("show", hostile, "--kind", "weight", "--json").stdout)
    expected = [name.encode("utf-8", "backslashreplace").decode() for name in HOSTILE]
    found = [e["path"].encode("utf-8", "backslashreplace").decode() for e in facts["sites"]]
    assert found == expected
    table = invoke("export", hostile, "--kind", "weight", "--steps", "1").stdout
    cells = [row["path"] for row in csv.DictReader(io.StringIO(table))]
    assert len(cells) == len(HOSTILE)
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)


def on_terminal(columns, *arguments, **environment):
    """What a command prints on a terminal of that many columns, and its exit code."""
    mine, its = pty.openpty()
    ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    clean = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "LINES")}
    process = subprocess.Popen(
        command(*arguments), stdin=its, stdout=its, stderr=its, env={**clean, **environment}
    )
    os.close(its)
    data = b""
    while True:
        try:
            more = os.read(mine, 65536)
        except OSError:  # how Linux says that the other end is closed
            break
        if not more:
            break
        data += more
    os.close(mine)
    return data.decode(), process.wait()


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_tables_are_never_wider_than_the_terminal(hostile, columns):
    text, code = on_terminal(columns, "show", hostile, TERM="xterm")
    assert code == 0
    plain = re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", text)
    rows = plain.split("Layers")[1].splitlines()
    assert max(map(display_width, rows)) <= columns
    assert not RAW.search(plain.replace("\r", ""))


def test_colours_are_for_terminals_that_want_them(run):
    assert "\x1b[1m" in on_terminal(80, "show", run, TERM="xterm")[0]
    assert "\x1b[1m" not in on_terminal(80, "show", run, TERM="xterm", NO_COLOR="1")[0]
    assert "\x1b" not in invoke("show", run).stdout


def test_long_work_shows_progress_on_a_terminal_only(run, tmp_path):
    text, code = on_terminal(80, "export", run, "-o", tmp_path / "a.csv", TERM="xterm")
    assert code == 0
    assert "Exporting shared" in text
    process = spawn("verify", run, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    _, errors = process.communicate()
    assert errors == ""


def test_an_output_that_cannot_show_bars_gets_others(run):
    process = subprocess.run(
        command("show", run), capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}
    )
    assert process.returncode == 0
    assert process.stdout.isascii()
    assert b"@" in process.stdout
