"""However large a run is, its report has a bound, and says what it leaves out."""

import json
import re

import numpy as np
import pytest

import gradwatch
from gradwatch.core import Kind, Reading, Site, Summary
from gradwatch.store.writer import StoreWriter
from gradwatch.view.report import page_data as module
from gradwatch.view.report.page import to_inert_json


@pytest.fixture(scope="module")
def wide_run(tmp_path_factory):
    """2,000 layers of two sites each, in blocks of ten."""
    directory = tmp_path_factory.mktemp("runs") / "wide"
    rng = np.random.default_rng(0)
    sites = [
        Site(Kind.GRADIENT, f"net/block_{i // 10}/dense_{i}/{part}")
        for i in range(2_000)
        for part in ("kernel", "bias")
    ]
    writer = StoreWriter(directory)
    for step in (1, 2, 3):
        rows = np.stack([Summary.of(rng.normal(size=4)).pack() for _ in sites])
        writer.write(Reading(step, 1, 1e9 + step, sites, Summary.unpack(rows)))
    writer.close()
    return directory


def snapshot_of(path):
    return json.loads(re.search(r'id="snapshot">(.*?)</script>', path.read_text(), re.S)[1])


def test_rows_beyond_the_bound_are_merged_into_their_blocks(wide_run, tmp_path):
    found = snapshot_of(gradwatch.report(wide_run, tmp_path / "a.html"))
    (tree,) = found["trees"]
    most = module.MAX_CELLS // module.MIN_COLUMNS
    assert len(tree["label"]) == most
    blocks = [i for i, label in enumerate(tree["label"]) if label.startswith("block_")]
    assert len(blocks) == 200
    heatmap = found["heatmaps"][0]
    values = np.frombuffer(__import__("base64").b64decode(heatmap["values"]), "<f8")
    values = values.reshape(len(heatmap["rows"]), -1)
    with gradwatch.open(wide_run) as run:
        for block in blocks[::37]:
            true = run.series("gradient", f"net/{tree['label'][block]}", "l2")[1]
            np.testing.assert_allclose(values[block], true, rtol=1e-12)
    said = {fact["name"]: fact["value"] for fact in found["run"]["facts"]}
    assert "rows of gradient" in said["left out of this report"]
    assert "plots of" in said["left out of this report"]


@pytest.mark.parametrize(
    "bound", [20_000, *(pytest.param(each, marks=pytest.mark.slow) for each in (2_000, 200_000))]
)
def test_the_data_is_no_larger_than_the_bound(wide_run, tmp_path, monkeypatch, bound):
    monkeypatch.setattr(module, "MAX_BYTES", bound)
    found = snapshot_of(gradwatch.report(wide_run, tmp_path / "a.html"))
    parts = ("trees", "heatmaps", "numbers", "series", "distributions", "pictures")
    assert sum(len(to_inert_json(found[part])) for part in parts) < bound + 200
    said = {fact["name"]: fact["value"] for fact in found["run"]["facts"]}
    assert said["left out of this report"]


def test_a_small_run_is_carried_whole(golden_run, tmp_path):
    found = snapshot_of(gradwatch.report(golden_run, tmp_path / "a.html"))
    assert "left out of this report" not in {fact["name"] for fact in found["run"]["facts"]}
