"""How the processes of a run stand, in the words of show, ls, top and reports."""

import json
import re

import numpy as np
import pytest
from click.testing import CliRunner

import gradwatch
from gradwatch import Kind, Site
from gradwatch.cli.main import main
from gradwatch.core import Reading, Summary
from gradwatch.read import RankStatus, Status
from gradwatch.store import description
from gradwatch.store.writers import writer_for
from gradwatch.view.text.rank_words import rank_counts, ranks_in_words

WORDS = "rank 2 has recorded nothing; 2 of 3 finished"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Three ranks are expected; the last never came."""
    place = tmp_path_factory.mktemp("runs") / "parallel"
    place.mkdir()
    about = description.Description(place)
    about.begin({"first_step": 1, "ranks": 3})
    about.write()
    for rank in (0, 1):
        writer = writer_for(place, 1, rank=rank)
        sites = [Site(Kind.LOSS, "loss"), *[Site(Kind.GRADIENT, "net/kernel")] * (rank == 0)]
        rows = Summary.unpack(np.ones((len(sites), 10)))
        writer.write(Reading(5, 1, 1.7e9, sites, rows))
        writer.close()
    return place


def said(*arguments):
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_show_and_top_say_it_in_one_line(place):
    assert re.search(rf"^ranks +{WORDS}$", said("show", place), re.MULTILINE)
    assert re.search(rf"^ranks +{WORDS}$", said("top", place, "--once"), re.MULTILINE)


def test_ls_names_those_that_have_stopped_or_are_missing(place):
    assert re.search(r"^run .* ranks ", said("ls", place.parent), re.MULTILINE)
    assert "3, without 2" in said("ls", place.parent)
    (entry,) = json.loads(said("ls", place.parent, "--json"))
    assert (entry["ranks"], entry["stopped_ranks"]) == (3, [2])


def test_reports_say_it_too(place, tmp_path):
    text = gradwatch.report(place, tmp_path / "a.md").read_text()
    assert "### Ranks: 3, 2 finished, 1 missing" in text
    facts = json.loads(gradwatch.report(place, tmp_path / "a.json").read_text())
    assert [each["status"] for each in facts["processes"]] == ["finished", "finished", "empty"]
    assert facts["processes"][1]["last_step"] == 5


def test_of_many_that_have_stopped_a_few_are_named():
    each = [RankStatus(rank, Status.CRASHED, 7) for rank in range(10)]
    each += [RankStatus(10, Status.LIVE, 90)]
    assert ranks_in_words(each) == (
        "rank 0 crashed, last at step 7; rank 1 crashed, last at step 7; "
        "rank 2 crashed, last at step 7; 7 more like these; 1 of 11 live"
    )
    assert rank_counts(each) == "11, 1 live, 10 crashed"
    assert rank_counts(each[:10]) == "10, all crashed"


@pytest.mark.parametrize("rank", [0, 1])
def test_show_tells_of_which_rank_the_health_is(place, rank):
    assert f"Health of rank {rank} " in said("show", place, "--rank", rank)
