"""RowGroups of a tree, against the merged elements of their sites."""

import numpy as np
import pytest

import gradwatch
from gradwatch.core import Kind, Site
from gradwatch.read import RowGroups
from gradwatch.view.data import RunView, StaleTreeError, Window, heatmap, series
from gradwatch.view.data.labels import menu_of
from tests.statistics_truth import TRUTH
from tests.store.recorded import Recorder, array
from tests.view.data.made import (
    SITES,
    average,
    cells,
    columns,
    members,
    recorder,
    truth,
)

NODES = 14


def all_rows(shown, kind, statistic, window):
    nodes = list(range(len(shown.tree(kind))))
    return heatmap(shown, kind, statistic, nodes, window)


def assert_true(shown, kind, statistic, window, **which):
    answer = all_rows(shown, str(kind), statistic, window)
    tree = shown.tree(str(kind))
    found = cells(answer)
    for row, node in enumerate(answer["rows"]):
        true = [
            truth(kind, tree.path(node), statistic, range(first, last + 1), **which)
            for first, last in columns(answer)
        ]
        np.testing.assert_allclose(found[row], true, rtol=1e-9, atol=1e-12)
    return answer


@pytest.mark.parametrize("statistic", sorted(TRUTH))
@pytest.mark.parametrize("most", [7, 100])
def test_each_row_is_its_sites_merged_and_averaged_over_steps(shown, statistic, most):
    answer = assert_true(shown, Kind.GRADIENT, statistic, Window(most))
    assert len(answer["rows"]) == NODES
    assert len(answer["first"]) <= most
    assert answer["width"] == (12 if most == 7 else 1)
    assert answer["complete"]


def test_every_statistic_that_is_offered_is_answered(shown):
    for kind in (Kind.GRADIENT, Kind.UPDATE, Kind.DEAD_UNIT):
        for about in menu_of(kind, with_ratio=True):
            recorded = "update" if kind is Kind.UPDATE else "gradient"
            assert all_rows(shown, recorded, about["name"], Window(5))["rows"]


def test_cells_with_numbers_that_are_not_finite_are_counted(shown):
    answer = all_rows(shown, "gradient", "l2", Window(7))
    tree = shown.tree("gradient")
    found = {(row, column): count for row, column, count in answer["nonfinite"]}
    for row, node in enumerate(answer["rows"]):
        for column, (first, last) in enumerate(columns(answer)):
            true = sum(
                int((~np.isfinite(array(site, step))).sum())
                for site in members(Kind.GRADIENT, tree.path(node))
                for step in range(first, last + 1)
            )
            assert found.get((row, column), 0) == true
    assert found


@pytest.mark.parametrize("most", [7, 100])
def test_the_update_ratio_of_a_block_is_that_of_its_merged_norms(shown, most):
    answer = all_rows(shown, "update", "update_ratio", Window(most))
    tree = shown.tree("update")
    for row, node in enumerate(answer["rows"]):
        true = []
        for first, last in columns(answer):
            steps = range(first, last + 1)
            size = truth(Kind.WEIGHT, tree.path(node), "l2", steps)
            change = truth(Kind.UPDATE, tree.path(node), "l2", steps)
            true.append(change / size if size else np.nan)
        np.testing.assert_allclose(cells(answer)[row], true, rtol=1e-9)


def test_zooming_asks_for_some_steps_only(shown):
    answer = assert_true(shown, Kind.WEIGHT, "rms", Window(100, (11, 25)))
    assert (answer["first"][0], answer["last"][-1]) == (11, 25)


def test_zooming_between_measured_steps_has_those_next_to_them(tmp_path):
    writer = Recorder(tmp_path / "a", sites=list(SITES))
    writer.write(range(10, 101, 10))
    writer.close()
    shown = RunView(gradwatch.open(tmp_path / "a"))
    for stretch, steps in (((41, 47), [40, 50]), ((40, 50), [40, 50]), ((1, 5), [10])):
        assert heatmap(shown, "gradient", "l2", [0], Window(9, stretch))["first"] == steps
        assert series(shown, "gradient", "net", Window(9, stretch))["first"] == steps


def test_rows_come_in_the_order_asked_for_and_may_be_few(shown):
    every = cells(all_rows(shown, "gradient", "l2", Window(10)))
    few = heatmap(shown, "gradient", "l2", [9, 0, 4], Window(10))
    assert few["rows"] == [9, 0, 4]
    # Not to the last bit: in which order sums are made is left to the database.
    np.testing.assert_allclose(cells(few), every[[9, 0, 4]], rtol=1e-12)


def test_steps_at_which_only_some_sites_were_measured_count_once(tmp_path):
    halves = [s for s in SITES if "block1" in s.path], [s for s in SITES if "block1" not in s.path]
    often = Recorder(tmp_path / "a", rows_a_journal=10**6, sites=halves[0])
    for step in range(1, 13):
        often.sites = halves[0] if step % 2 else [*halves[0], *halves[1]]
        often.write([step])
    often.close()
    shown = RunView(gradwatch.open(tmp_path / "a"))
    answer = heatmap(shown, "gradient", "l2", [0], Window(3))
    true = []
    for first, last in columns(answer):
        steps = range(first, last + 1)
        arrays = [
            array(site, step)
            for site in members(Kind.GRADIENT, "net")
            for step in steps
            if "block1" in site.path or step % 2 == 0
        ]
        true.append(average("l2", arrays, len(steps)))
    np.testing.assert_allclose(cells(answer)[0], true, rtol=1e-12)


@pytest.mark.parametrize("seal", [True, False])
def test_a_step_whose_sites_are_in_two_files_counts_once(tmp_path, seal):
    """Parts of a training are recorded apart: a file may end between them."""
    writer = Recorder(tmp_path / "a", rows_a_journal=7)
    apart = [s for s in SITES if "block1" in s.path], [s for s in SITES if "block1" not in s.path]
    for step in range(1, 9):
        for sites, group in zip(apart, ("generator", "critic"), strict=True):
            writer.sites = sites
            writer.write([step], group=group)
    writer.close(seal=seal)
    run = gradwatch.open(tmp_path / "a")
    if seal:
        assert len(run._snapshot.segments) > 8
        assert run._snapshot.shared_steps(frozenset([0]), "gradient").size
    assert_true(RunView(run), Kind.GRADIENT, "l2", Window(100))
    assert_true(RunView(run), Kind.GRADIENT, "zeros", Window(2))


def test_micro_batches_are_merged_where_the_step_as_a_whole_is_not_known(tmp_path):
    writer = recorder(tmp_path / "a")
    for step in range(1, 13):
        for micro_batch in (0, 1):
            writer.write([step], micro_batch=micro_batch)
        if step % 3 == 0:
            writer.write([step])
    writer.close()
    shown = RunView(gradwatch.open(tmp_path / "a"))
    answer = all_rows(shown, "gradient", "l1", Window(4))
    tree = shown.tree("gradient")
    for row, node in enumerate(answer["rows"]):
        true = []
        for first, last in columns(answer):
            arrays = [
                array(site, step, part=part)
                for site in members(Kind.GRADIENT, tree.path(node))
                for step in range(first, last + 1)
                for part in ([0] if step % 3 == 0 else [1, 2])
            ]
            true.append(average("l1", arrays, last - first + 1))
        np.testing.assert_allclose(cells(answer)[row], true, rtol=1e-12)


def test_the_rank_that_was_asked_for_is_shown(tmp_path):
    for rank in (0, 1):
        recorder(tmp_path / "a", rank=rank).write(range(1, 9)).close()
    run = gradwatch.open(tmp_path / "a")
    for rank in (0, 1):
        assert_true(RunView(run, rank=rank), Kind.GRADIENT, "l2", Window(3), rank=rank)
    assert (RunView(run, rank=7).rank, RunView(run, rank=7).one_rank) == (None, 0)


def test_what_a_later_attempt_replaced_is_in_no_row(tmp_path):
    recorder(tmp_path / "a").write(range(1, 21)).close()
    recorder(tmp_path / "a", first_step=11, attempt=1).write(range(11, 16)).close()
    shown = RunView(gradwatch.open(tmp_path / "a"))
    answer = all_rows(shown, "gradient", "sum", Window(100))
    assert answer["last"][-1] == 15
    for row, node in enumerate(answer["rows"]):
        path = shown.tree("gradient").path(node)
        true = [truth(Kind.GRADIENT, path, "sum", [s], attempt=int(s > 10)) for s in range(1, 16)]
        np.testing.assert_allclose(cells(answer)[row], true, rtol=1e-9, atol=1e-12)


def test_nodes_of_an_older_tree_are_refused(shown):
    revision = shown.tree("gradient").revision
    assert heatmap(shown, "gradient", "l2", [0], Window(5), revision)["rows"] == [0]
    with pytest.raises(StaleTreeError):
        heatmap(shown, "gradient", "l2", [0], Window(5), "another")
    with pytest.raises(ValueError, match="nodes of the tree, 0 to 13"):
        heatmap(shown, "gradient", "l2", [14], Window(5), revision)
    with pytest.raises(ValueError, match="no statistic 'l3'"):
        heatmap(shown, "gradient", "l3", [0], Window(5), revision)


def test_a_row_without_sites_is_of_no_number(shown):
    rows = RowGroups.of([[], [Site(Kind.GRADIENT, "net/stem/kernel")]])
    bucketing = Window(5).bucketing(shown.steps(Kind.GRADIENT))
    table = shown.run.row_table("gradient", rows, ["l2"], bucketing)
    assert np.isnan(table.values["l2"][0]).all()
    assert not np.isnan(table.values["l2"][1]).any()
    only_empty = shown.run.row_table("gradient", RowGroups.of([[]]), ["l2"], bucketing)
    assert np.isnan(only_empty.values["l2"]).all()
