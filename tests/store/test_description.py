"""`run.json`: whole, short, and readable from earlier versions."""

from __future__ import annotations

import json

import pytest

from gradwatch.store import description
from gradwatch.store.description import Description
from gradwatch.util.files.checked_json import DamagedError


def test_of_many_fits_the_first_and_the_last_are_kept(tmp_path):
    for number in range(60):
        about = Description(tmp_path)
        about.begin({"number": number})
        about.write()
    content = description.read(tmp_path / "run.json")
    assert content["fit_count"] == 60
    assert [fit["number"] for fit in content["fits"]] == [0, *range(40, 60)]
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_facts_of_the_run_are_as_they_were_last(tmp_path):
    about = Description(tmp_path)
    about.begin({"number": 0})
    about.amend("cost", 1)
    about.write()
    about.amend("cost", 2)
    about.write()
    content = description.read(tmp_path / "run.json")
    assert (content["cost"], content["fit_count"]) == (2, 1)


def test_with_nothing_to_say_nothing_is_written(tmp_path):
    Description(tmp_path).write()
    assert list(tmp_path.iterdir()) == []


def test_what_could_not_be_written_is_written_the_next_time(tmp_path):
    about = Description(tmp_path / "missing")
    about.begin({"number": 0})
    with pytest.raises(OSError, match="missing"):
        about.write()
    (tmp_path / "missing").mkdir()
    about.write()
    assert description.read(tmp_path / "missing" / "run.json")["fits"] == [{"number": 0}]


def test_a_description_of_format_1_is_read_and_continued(tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"format": 1, "fits": [{"number": 0}]}))
    assert description.read(path)["fits"] == [{"number": 0}]
    about = Description(tmp_path)
    about.begin({"number": 1})
    about.write()
    content = description.read(path)
    assert (content["format"], content["fit_count"]) == (2, 2)
    assert content["fits"] == [{"number": 0}, {"number": 1}]


def test_damage_is_noticed_and_what_is_left_is_kept_aside(tmp_path):
    about = Description(tmp_path)
    about.begin({"number": 100})
    about.write()
    path = tmp_path / "run.json"
    damaged = path.read_text().replace("100", "200")
    path.write_text(damaged)
    with pytest.raises(DamagedError, match="checksum"):
        description.read(path)
    about.begin({"number": 1})
    about.write()
    assert description.read(path)["fits"] == [{"number": 1}]
    assert (tmp_path / "run.json.damaged").read_text() == damaged


def test_what_another_process_has_written_meanwhile_is_kept(tmp_path):
    own, other = Description(tmp_path), Description(tmp_path)
    own.amend("note", "mine")
    own.write()
    other.amend("tags", ["theirs"])
    other.write()
    own.amend("config", {"rate": 0.1})
    own.write()
    content = description.read(own.path)
    assert (content["note"], content["tags"]) == ("mine", ["theirs"])
    assert content["config"] == {"rate": 0.1}
