"""Which sites are due at which step."""

from dataclasses import replace

import pytest

from gradwatch import Kind, Site, gradients, losses, updates, weights
from gradwatch.core import SiteInfo, schedule
from gradwatch.core.schedule import Moment, every
from gradwatch.core.select import SelectionError
from gradwatch.watches import diagnosis_watches
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


def thinned(asked_for, chosen):
    watches = [gradients("b"), losses(), *diagnosis_watches()]
    available = [*AVAILABLE, SiteInfo(Site(Kind.LOSS, "loss"), (), "float32", "")]
    table = Timetable(
        [replace(w, optional=True) if w.kind is Kind.LOSS else w for w in watches],
        asked_for,
        schedule.at(*chosen),
    )
    return table, Plan(table, available)


def test_what_only_the_diagnosis_wants_is_due_at_some_of_the_steps_that_are_asked_for():
    table, p = thinned(every(2), [3, 4])
    for step in (2, 6):
        assert due(p, step) == (["gradient b/kernel", "loss loss"], set())
        assert not table.is_whole(Moment(step))
    assert "update b/kernel" in due(p, 4)[0]
    assert table.is_whole(Moment(4))
    assert due(p, 3) == ([], set())
    assert not table.is_due(Moment(3))


def test_a_step_that_is_run_again_has_what_was_not_measured_the_first_time():
    _, p = thinned(every(2), [4])
    assert "gradient b/kernel" not in due(p, 2, is_again=True)[0]
    assert "update b/kernel" in due(p, 2, is_again=True)[0]
    assert {"gradient b/kernel", "update b/kernel"} <= set(due(p, 3, is_again=True)[0])


def test_steps_that_are_not_whole_have_a_timetable_of_their_own():
    table, _ = thinned(every(2), [4])
    assert table.without_diagnosis().kinds == {Kind.GRADIENT, Kind.LOSS}
    assert Timetable(table.watches, every(2)).without_diagnosis() is None
