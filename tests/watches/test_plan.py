"""Which sites are due at which step."""

import pytest

from gradwatch import Kind, Site, gradients, updates, weights
from gradwatch.core import SiteInfo, schedule
from gradwatch.core.schedule import Moment, every
from gradwatch.core.select import SelectionError
from gradwatch.watches.plan import Plan, Timetable


def sites(*paths):
    return [
        SiteInfo(Site(kind, path), (2,), "float32", path.rpartition("/")[2])
        for path in paths
        for kind in (Kind.WEIGHT, Kind.GRADIENT, Kind.UPDATE)
    ]


AVAILABLE = sites("net/a/kernel", "net/a/bias", "net/b/kernel")
EPOCH_END = {"stands_for_epoch": True}


def plan(*watches, default=10):
    return Plan(Timetable(watches, every(default)), AVAILABLE)


def due(plan, step, **moment):
    found = plan.due(Moment(step=step, **moment))
    names = [str(plan.sites[i]).replace("net/", "") for i in found.summaries]
    return names, {str(plan.sites[i]).replace("net/", "") for i in found.histograms}


def test_sites_stand_in_network_order_whatever_the_order_of_the_watches():
    p = plan(weights("b"), gradients("a"))
    assert [str(s) for s in p.sites] == [
        "gradient net/a/kernel",
        "gradient net/a/bias",
        "weight net/b/kernel",
    ]


def test_a_watch_without_schedule_follows_the_default():
    p = plan(gradients("a/bias"), weights("b", every=3), default=5)
    assert due(p, 3) == (["weight b/kernel"], set())
    assert due(p, 5) == (["gradient a/bias"], set())
    assert due(p, 15) == (["gradient a/bias", "weight b/kernel"], set())
    assert due(p, 4) == ([], set())


def test_histograms_have_a_schedule_of_their_own_and_bring_their_summary():
    p = plan(gradients("b", every=10, histogram="epoch"))
    assert due(p, 10) == (["gradient b/kernel"], set())
    assert due(p, 7, **EPOCH_END) == (["gradient b/kernel"], {"gradient b/kernel"})


def test_histogram_true_means_with_every_summary():
    p = plan(gradients("b", histogram=True), default=4)
    assert due(p, 4) == (["gradient b/kernel"], {"gradient b/kernel"})
    assert due(p, 5, **EPOCH_END) == ([], set())


def test_two_watches_of_one_site_are_both_heard():
    p = plan(weights("b", every=2), weights("b", every=3, histogram=True))
    assert len(p.sites) == 1
    assert due(p, 2) == (["weight b/kernel"], set())
    assert due(p, 3) == (["weight b/kernel"], {"weight b/kernel"})


def test_updates_bring_their_weights_along_but_not_the_weights_histogram():
    p = plan(updates("a", every=2, histogram=True), weights("b", every=3))
    names, histograms = due(p, 2)
    assert names == [
        "weight a/kernel",
        "update a/kernel",
        "weight a/bias",
        "update a/bias",
    ]
    assert histograms == {"update a/kernel", "update a/bias"}
    assert due(p, 3)[0] == ["weight b/kernel"]


def test_a_watch_that_never_comes_due_is_never_due():
    p = plan(weights(every=schedule.never()))
    assert due(p, 1, **EPOCH_END) == ([], set())


def test_a_selection_without_match_names_the_watch():
    with pytest.raises(SelectionError, match=r"updates\('nowhere'\)"):
        plan(updates("nowhere"))


def test_a_watch_reads_as_it_was_written():
    watch = gradients("conv*", 0, every=5, histogram="epoch")
    assert str(watch) == "gradients('conv*', 0, every=every(5), histogram=each_epoch(1))"
    assert str(weights(histogram=True)) == "weights(histogram=True)"
