"""Children that are forked while training goes on: no hang, and no row twice or missing."""

from __future__ import annotations

import pytest

import gradwatch
from tests.faults import truth
from tests.variants import rarely


@pytest.mark.parametrize(
    "way", ["fork", *rarely("fork and exit", "multiprocessing fork", "forkserver")]
)
def test_children_that_touch_the_api_leave_the_run_alone(nursery, tmp_path, count, way):
    children = count(3, 40)
    output = nursery.run("programs.train_with_children", way, tmp_path / "run", 6, children)
    assert output.count("child done") == children, output
    steps = truth.steps_shown(tmp_path / "run", 6)
    assert steps == list(range(1, 10 * (children + 1) + 1))
    with gradwatch.open(tmp_path / "run") as run:
        (all_rows,) = run.sql("select count(*) from all_summaries").fetchall()[0]
        assert all_rows == len(steps) * len(truth.PATHS)
        assert run.status == "finished"
    for child in range(children):
        assert truth.steps_shown(tmp_path / f"child-{child}", 100 + child) == [1, 2, 3]
