"""A run that grows: what has changed is all that is sent, and it is enough."""

import numpy as np
import pytest

import gradwatch
from gradwatch.view.data import RunView, Window, heatmap, numbers, series
from tests.store.recorded import settle
from tests.variants import rarely
from tests.view.data.made import cells, doubles, recorder

NODES = list(range(14))


def merged(known, change):
    """What a page does with columns that have changed."""
    if known is None or change["complete"]:
        return change
    assert change["width"] == known["width"]
    kept = sum(last < change["first"][0] for last in known["last"]) if change["first"] else None
    return {
        **change,
        "first": known["first"][:kept] + change["first"],
        "last": known["last"][:kept] + change["last"],
        "cells": np.concatenate([known["cells"][:, :kept], change["cells"]], axis=1),
    }


def with_cells(answer):
    return {**answer, "cells": cells(answer)}


@pytest.mark.parametrize("most", [6, *rarely(200)])
def test_changed_columns_added_to_those_known_are_the_full_answer(tmp_path, most):
    writer = recorder(tmp_path / "a")
    writer.write([1])
    shown = RunView(gradwatch.open(tmp_path / "a"))
    known = None
    sent = []
    for start in range(2, 50, 3):
        since = known["last"][-1] if known else None
        width = known["width"] if known else None
        answer = heatmap(shown, "gradient", "std", NODES, Window(most, since=since, width=width))
        sent.append(len(answer["first"]))
        known = merged(known, with_cells(answer))
        full = with_cells(heatmap(shown, "gradient", "std", NODES, Window(most)))
        fresh = RunView(gradwatch.open(tmp_path / "a"))
        again = with_cells(heatmap(fresh, "gradient", "std", NODES, Window(most)))
        for name in ("first", "last", "width"):
            assert known[name] == full[name] == again[name]
        np.testing.assert_allclose(known["cells"], full["cells"], rtol=1e-12)
        np.testing.assert_allclose(full["cells"], again["cells"], rtol=1e-12)
        writer.write(range(start, start + 3))
        settle()
        shown.run.refresh()
    writer.close()
    # All of it only when columns become wider: 1, 2, 3, 4, 6, 8, 12, 16.
    assert sum(n > 4 for n in sent[2:]) <= 8


def test_series_and_numbers_send_only_what_changed(tmp_path):
    writer = recorder(tmp_path / "a")
    writer.write(range(1, 21))
    shown = RunView(gradwatch.open(tmp_path / "a"))
    window = Window(100, since=18, width=1)
    full, few = (series(shown, "update", "net/block1", w) for w in (Window(100), window))
    assert (few["first"], few["complete"], full["complete"]) == ([18, 19, 20], False, True)
    for name, values in few["statistics"].items():
        np.testing.assert_array_equal(doubles(values), doubles(full["statistics"][name])[17:])
    [all_], [some] = (numbers(shown, w)["numbers"] for w in (Window(100), window))
    assert some["last"] == [18, 19, 20]
    np.testing.assert_array_equal(doubles(some["values"]), doubles(all_["values"])[17:])
    other_width = numbers(shown, Window(100, since=18, width=2))["numbers"][0]
    assert other_width["complete"]
    assert len(other_width["first"]) == 20
    writer.close()


def test_a_tree_is_another_one_when_sites_are_added(tmp_path):
    writer = recorder(tmp_path / "a")
    everything = writer.sites
    writer.sites = everything[:6]
    writer.write([1])
    shown = RunView(gradwatch.open(tmp_path / "a"))
    before = shown.tree("gradient")
    writer.write([2])
    shown.run.refresh()
    assert shown.tree("gradient") is before
    writer.sites = everything
    writer.write([3])
    shown.run.refresh()
    assert shown.tree("gradient").revision != before.revision
    writer.close()
