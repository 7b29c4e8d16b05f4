"""Runs that several processes have written."""

import numpy as np

import gradwatch
from gradwatch import Kind, Site
from gradwatch.core import Reading, Summary
from gradwatch.read import Status
from gradwatch.sinks import RunInfo, Store
from gradwatch.store import description
from gradwatch.store.writers import writer_for


def reading(step, *sites):
    rows = np.ones((len(sites), 10))
    return Reading(step, 1, 1_700_000_000.0 + step, sites, Summary.unpack(rows))


WEIGHT, LOSS = Site(Kind.WEIGHT, "a"), Site(Kind.LOSS, "loss")


def test_a_store_writes_under_the_rank_that_the_run_tells_it(tmp_path):
    for rank in (3, 0):
        sink = Store()
        sink.open(RunInfo(tmp_path, rank=rank))
        sink.write(reading(1, WEIGHT))
        sink.close()
    assert gradwatch.open(tmp_path).ranks == (0, 3)


def test_a_writer_goes_on_though_one_of_another_rank_has_begun_since(tmp_path):
    first = writer_for(tmp_path, 1, rank=0)
    first.write(reading(1, WEIGHT))
    first.close()
    other = writer_for(tmp_path, 1, rank=1)
    other.write(reading(1, LOSS))
    other.close()
    again = writer_for(tmp_path, 2, rank=0)
    assert again is first
    again.close()


def test_sites_come_in_the_order_of_the_first_rank_though_another_began_earlier(tmp_path):
    second = writer_for(tmp_path, 1, rank=1)
    second.write(reading(1, LOSS))
    first = writer_for(tmp_path, 1, rank=0)
    first.write(reading(1, WEIGHT, LOSS))
    for writer in (first, second):
        writer.close()
    assert gradwatch.open(tmp_path).sites() == [WEIGHT, LOSS]


def test_each_rank_has_its_status_also_one_that_has_recorded_nothing(tmp_path):
    about = description.Description(tmp_path)
    about.begin({"first_step": 1, "ranks": 3})
    about.write()
    ended, live = (writer_for(tmp_path, 1, rank=rank) for rank in (0, 1))
    ended.write(reading(5, WEIGHT))
    ended.close()
    live.write(reading(7, LOSS))
    run = gradwatch.open(tmp_path)
    assert [each.status for each in run.rank_statuses] == [
        Status.FINISHED,
        Status.LIVE,
        Status.EMPTY,
    ]
    assert [each.last_step for each in run.rank_statuses] == [5, 7, None]
    assert run.rank_statuses[1].last_time == 1_700_000_007.0
    live.close()
