"""Whatever a layer is called, its numbers come back under that name."""

import unicodedata

import pytest
from numpy.testing import assert_allclose

import gradwatch
from gradwatch.core import Kind, Site
from tests.statistics_truth import TRUTH
from tests.store.recorded import Recorder, array

NAMES = [
    "..", "../../etc/passwd", "/etc/passwd", "a/../b", "'", '"', "'; drop table sites; --",
    "a\x00b", "\x1b[31mred\x1b[0m", "a\nb", "a\tb", "a\\b", "%s%n", "*", "?", "[a]", "kernel[x]",
    "<script>alert(1)</script>", "[red]x[/red]", "=cmd()", "+1", "-1", "@x", "\u202eabc", "é",
    unicodedata.normalize("NFD", "é"), "KERNEL", "kernel", "ß", "😀", "x" * 4096, " ", "a b", "-",
    "model", "summaries", "{0}", "$1", "?1", ":name", "a//b", "a/", "/a", "null", "NaN", "\ufeffa",
]  # fmt: skip


@pytest.mark.parametrize("seal", [False, True])
def test_every_name_comes_back_with_its_own_numbers(tmp_path, seal):
    sites = [Site(Kind.GRADIENT, name) for name in NAMES]
    recorder = Recorder(tmp_path, sites=sites, rows_a_journal=10**6).write([1, 2])
    if seal:
        recorder.close()
    with gradwatch.open(tmp_path) as run:
        assert run.sites("gradient") == sites
        heatmap = run.heatmap("gradient", "l1")
        for i, site in enumerate(sites):
            true = [TRUTH["l1"](array(site, step)) for step in (1, 2)]
            assert_allclose(run.series("gradient", site.path, "l1")[1], true, rtol=1e-6)
            assert_allclose(heatmap.values[i], true, rtol=1e-6)
        assert [path for (path,) in run.sql("select path from sites order by number")][:-1] == NAMES
        assert "\x1b" not in repr(run.sql("from sites"))
        assert not run.damage
    if not seal:
        recorder.close()
    assert {path.parent for path in tmp_path.rglob("*.parquet")} == {tmp_path / "segments"}


def test_half_a_surrogate_pair_is_spelled_out(tmp_path):
    recorder = Recorder(tmp_path, sites=[Site(Kind.GRADIENT, "a\ud800b")]).write([1])
    for close in (lambda: None, recorder.close):
        close()
        with gradwatch.open(tmp_path) as run:
            assert [site.path for site in run.sites("gradient")] == ["a\\ud800b"]
            assert run.series("gradient", "a\\ud800b")[0].tolist() == [1]
