"""The names of the store's files say who wrote them, and nothing else is taken for one."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

from gradwatch.store import file_names as names
from gradwatch.store import process


def test_names_say_what_they_were_made_of():
    writer = names.new_writer(3)
    assert names.parse_journal(names.journal(Path("r"), writer, 7).name) == (
        names.JournalName(writer, 7)
    )
    assert names.parse_manifest(names.manifest(Path("r"), writer).name) == writer
    segment = names.segment(writer, 1_000_000, "summaries", "0a1b2c3d")
    assert names.parse_segment(segment) == (
        names.SegmentName(writer, 1_000_000, "summaries", "0a1b2c3d")
    )


def test_names_sort_by_time():
    made = [names.new_writer(rank=9 - i, now=1e9 + i / 1000) for i in range(9)]
    assert made == sorted(made)


def test_a_name_sorts_behind_those_that_are_there_and_is_a_name(tmp_path):
    now = 1_800_000_000.0
    there = [names.new_writer(0, now=now)]
    for later in (now, now - 1e6, now + 1e-3, now + 59.999, now + 59.999, 0.0):
        there.append(names.new_writer(0, now=later, after=there))
        names.journal(tmp_path, there[-1], 0).touch()
    assert there == sorted(there)
    assert names.writers_in(tmp_path, 0) == set(there[1:])
    assert names.writers_in(tmp_path, 1) == set()
    last = there[0].replace(there[0][:18], "99999999T999999999")
    assert names.parse_manifest(f"manifest-{names.new_writer(0, after=[last])}.json")


def test_names_differ_in_the_same_moment_and_do_not_use_up_the_users_random_numbers():
    state = random.getstate()
    assert len({names.new_writer(0, now=1.0) for _ in range(100)}) == 100
    assert random.getstate() == state


def test_other_files_are_passed_over():
    writer = names.new_writer(0)
    for name in (
        f".journal-{writer}-000000.gwj.1-ab.tmp",
        f"journal-{writer}-000000.gwj.bak",
        f"journal-{writer}.gwj",
        f"manifest-{writer}.json.tmp",
        f"{writer}-000000.summaries.0a1b2c3d.parquet.tmp",
        f"../{writer}-000000.summaries.0a1b2c3d.parquet",
        "run.json",
    ):
        assert names.parse_journal(name) is None
        assert names.parse_manifest(name) is None
        assert names.parse_segment(name) is None


def test_this_process_runs_and_one_that_ended_does_not():
    assert process.is_running(process.describe()) is True
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    facts = process.describe() | {"pid": child.pid, "process_start": process.start_of(child.pid)}
    assert process.is_running(facts) is True
    child.communicate(b"\n", timeout=300)
    assert process.is_running(facts) is False


def test_a_number_that_another_process_has_now_does_not_deceive():
    facts = process.describe()
    assert process.is_running(facts | {"process_start": facts["process_start"] - 1}) is False


def test_of_another_machine_nothing_is_known():
    assert process.is_running(process.describe() | {"host": "elsewhere"}) is None
    assert process.is_running({"pid": os.getpid()}) is None
