"""Runs side by side have the values of the reader."""

import numpy as np
import pytest

import gradwatch
from tests.view.browser import made
from tests.view.browser.numbers import floats, same


@pytest.mark.parametrize("align", ["step", "fraction"])
def test_a_comparison_has_the_values_of_the_reader(visit, ids, golden, other, align):
    opened = visit(f"/compare?runs={ids['golden']},{ids['other']}&align={align}")
    shown = opened.table("Ratio by layer")
    columns = int(opened.asked("compare")[-1]["columns"])
    sites = len(made.PATHS)
    true = gradwatch.compare(
        golden, other, kind="gradient", statistic="l2", align=align, max_cells=columns * sites
    )
    rows = list(zip(*shown.values(), strict=True))
    for i, site in enumerate(true.sites):
        own = [row for row in rows if row[0] == site.path]
        assert floats([row[1] for row in own]) == true.position.tolist()
        assert same([row[2] for row in own], true.values[0, i])
        assert same([row[3] for row in own], true.values[1, i])
        with np.errstate(all="ignore"):
            apart = np.log2(true.values[1, i] / true.values[0, i])
        apart[(true.values[:, i] == 0).all(axis=0)] = 0.0
        np.testing.assert_allclose(floats([row[4] for row in own]), apart, rtol=1e-9, atol=1e-12)
    layer = [float(row[2]) for row in rows if row[0] == "net/head"]
    parts = [i for i, site in enumerate(true.sites) if site.path.startswith("net/head/")]
    np.testing.assert_allclose(layer, np.linalg.norm(true.values[0, parts], axis=0), rtol=1e-12)
    assert "1 tensor of other that not all runs have" in opened.text


def test_the_overlay_of_a_site_has_the_values_of_the_reader(visit, ids, golden, other):
    path = "net/head/bias"
    opened = visit(f"/compare?runs={ids['golden']},{ids['other']}&path={path}")
    shown = opened.table(path)
    for run in (golden, other):
        steps, values = run.series("gradient", path)
        own = [(at, text) for at, text in zip(shown["step"], shown[run.name], strict=True) if text]
        assert floats([at for at, _ in own]) == steps.tolist()
        assert same([text for _, text in own], values)
