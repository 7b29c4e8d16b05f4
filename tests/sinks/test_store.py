"""The run store as a sink, and a monitor's default."""

from __future__ import annotations

import pytest

import gradwatch
from gradwatch.core import Kind, Site
from gradwatch.record.monitor_arguments import as_sinks
from gradwatch.sinks import RunInfo, Store
from tests.store.written import written

W = Site(Kind.WEIGHT, "w")


def test_it_writes_what_it_is_given_and_can_be_opened_again(run, make_reading):
    sink = Store()
    for first in (1, 3):
        sink.open(RunInfo(run.directory, first))
        for step in (first, first + 1):
            sink.write(make_reading(step, {W: [1.0] * step}))
        sink.close()
    found = written(run.directory)
    assert sorted((row[3], row[6]) for row in found.rows) == [(s, s) for s in (1, 2, 3, 4)]
    assert len(found.attempts) == 1


@pytest.mark.usefixtures("unsealed")
def test_its_rank_is_in_every_name(run, make_reading):
    sink = Store(rank=12)
    sink.open(run)
    sink.write(make_reading(1, {W: [1.0]}))
    sink.close()
    (journal,) = run.directory.glob("journal-*")
    assert "-r0012-" in journal.name


def test_without_a_reading_nothing_is_written(run):
    sink = Store()
    sink.open(run)
    sink.close()
    assert list(run.directory.iterdir()) == []


def test_misuse_says_what_is_wrong(make_reading):
    with pytest.raises(RuntimeError, match="before open"):
        Store().write(make_reading(1, {W: [1.0]}))
    with pytest.raises(ValueError, match="Received: -1"):
        Store(rank=-1)


def test_two_of_them_in_one_directory_do_not_meet(run, make_reading):
    first, second = Store(), Store()
    first.open(run)
    second.open(run)
    first.write(make_reading(1, {W: [1.0]}))
    second.write(make_reading(1, {W: [1.0]}))
    first.close()
    second.close()
    assert len(written(run.directory).attempts) == 2


def test_a_monitor_has_one_by_default():
    kinds = [type(sink) for sink in as_sinks(None)]
    assert kinds == [gradwatch.Store, gradwatch.TensorBoard, gradwatch.Console]
