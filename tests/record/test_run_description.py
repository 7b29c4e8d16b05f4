"""What a monitor writes about its run."""

from __future__ import annotations

import numpy as np

import gradwatch
from gradwatch.store import description


def test_a_loop_describes_what_was_watched_where_and_at_what_cost(tmp_path):
    values = {"a": {"w": np.ones((2, 3), np.float32)}}
    with gradwatch.Monitor(tmp_path, every=1, sinks=[gradwatch.Store()]) as monitor:
        for _ in range(3):
            monitor.record(variables=values, gradients=values)
        live = monitor.directory
    about = description.read(live / "run.json")
    (fit,) = about["fits"]
    assert fit["first_step"] == 1
    assert "gradient" in fit["meaning"]
    assert fit["environment"]["gradwatch"]
    assert fit["watch"]
    kinds = {(site["kind"], site["path"]): site for site in about["sites"]}
    assert set(kinds) == {("weight", "a/w"), ("gradient", "a/w")}
    assert kinds["gradient", "a/w"]["shape"] == [2, 3]
    assert kinds["gradient", "a/w"]["dtype"] == "float32"
    assert about["ended"] >= fit["started"]
    assert isinstance(about["cost"], dict)


def test_many_runs_of_one_directory_keep_the_sites_and_a_short_list(tmp_path):
    for step in range(30):
        with gradwatch.Monitor(tmp_path, every=1, sinks=[gradwatch.Store()]) as monitor:
            monitor.record(gradients={"w": np.ones(2)}, step=step + 1)
    about = description.read(tmp_path / "run.json")
    assert about["fit_count"] == 30
    assert [fit["first_step"] for fit in about["fits"]] == [1, *range(11, 31)]
    assert len(about["sites"]) == 1
    assert len(list(tmp_path.glob("journal-*"))) <= 2
    assert len(list(tmp_path.glob("manifest-*"))) <= 1
