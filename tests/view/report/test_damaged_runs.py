"""Runs of which a file is damaged or lost: every command shows the rest of them."""

import shutil

import pytest
from click.testing import CliRunner

from gradwatch.cli.main import main
from tests.cli.support import invoke
from tests.variants import rarely

COMMANDS = [
    ("ls", "{}"),
    ("show", "{}"),
    ("show", "{}", "--casts"),
    ("show", "{}", "--json"),
    ("diagnose", "{}"),
    ("compare", "{}", "{whole}"),
    ("compare", "{whole}", "{}"),
    ("top", "{}", "--once"),
    ("tail", "{}"),
    *[("export", "{}", "--table", t) for t in ("summaries", "histograms", "losses", "numbers")],
    ("sql", "{}", "select count(*) from summaries"),
    ("verify", "{}"),
    *[("report", "{}", "--format", form, "-o", "-") for form in ("md", "json", "html")],
]


def flip(file):
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def tables(run):
    """The segments of a run, by the table that each has rows of."""
    return {file.name.split(".")[1]: file for file in run.rglob("*.parquet")}


@pytest.fixture(params=["flipped", "lost"])
def damage(request):
    return flip if request.param == "flipped" else lambda file: file.unlink()


@pytest.fixture(params=["summaries", "all", *rarely("histograms", "pictures")])
def damaged(request, damage, golden_run, tmp_path):
    place = tmp_path / "damaged"
    shutil.copytree(golden_run, place)
    found = tables(place)
    for table in found if request.param == "all" else [request.param]:
        damage(found[table])
    return place


def test_every_command_shows_the_rest_of_a_damaged_run(damaged, golden_run):
    for arguments in COMMANDS:
        given = [each.format(damaged, whole=golden_run) for each in arguments]
        result = CliRunner().invoke(main, given)
        is_said = "There is no histogram" in result.output
        assert result.exit_code in (0, 1) or is_said, (arguments, result.output)
    assert "Damaged: " in invoke("report", damaged, "--format", "md", code=1).stdout
