"""A run whose every number is known, to be damaged, and what must still hold of it then."""

import os
from pathlib import Path

import gradwatch
from tests.conftest import SOURCES
from tests.statistics_truth import TRUTH
from tests.store.recorded import SITES, array

ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{SOURCES}{os.pathsep}{Path(SOURCES).parent}"}


def true_rows():
    rows = {}
    for step in range(1, 31):
        for site in SITES:
            rows[str(site.kind), site.path, step] = TRUTH["l1"](array(site, step))
    return rows


TRUE = true_rows()


def check(place):
    """Opens the run, in which every number is true; how many rows there are, and the damage."""
    with gradwatch.open(place) as run:
        rows = run.sql("select kind, path, step, l1 from summaries where kind <> 'loss'").fetchall()
        for kind, path, step, value in rows:
            assert abs(value - TRUE[kind, path, step]) <= 1e-6 * max(1.0, value)
        assert len({row[:3] for row in rows}) == len(rows)
        cells = run.sql("select kind, path, step, sum(cell_count) from histograms group by all")
        assert all(total == array(SITES[0], 1).size for *_, total in cells)
        return len(rows), run.damage


def files(place, pattern):
    found = sorted(place.glob(pattern))
    assert found, pattern
    return found
