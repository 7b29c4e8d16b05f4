"""Readings: what their sites tell, and readings without some of them."""

import numpy as np

from gradwatch import Kind, Reading, Site, Summary
from gradwatch.core import SiteFilter

MEASURED = (
    Site(Kind.GRADIENT, "net/a/kernel"),
    Site(Kind.SCALAR, "learning_rate"),
    Site(Kind.LOSS, "loss"),
    Site(Kind.INPUT, "input"),
)
REPORTED = (Site(Kind.METRIC, "loss"), Site(Kind.METRIC, "accuracy"))


def reading(sites, values):
    return Reading(1, 1, 0.0, sites, Summary.of_numbers(values))


def test_numbers_are_those_of_the_kind_by_path():
    measured = reading(MEASURED, [5.0, 0.1, np.inf, 3.0])
    assert measured.numbers(Kind.SCALAR) == {"learning_rate": 0.1}
    assert measured.losses() == {"loss": np.inf}
    assert measured.numbers(Kind.METRIC) == {}
    assert reading(REPORTED, [2.0, 0.5]).numbers(Kind.METRIC) == {"loss": 2.0, "accuracy": 0.5}


def test_readings_of_the_same_tuple_of_sites_share_their_layout():
    first, second = (reading(MEASURED, [x, x, x, x]) for x in (1.0, 2.0))
    assert first.layout is second.layout
    assert first.layout is not reading(REPORTED, [1.0, 2.0]).layout
    assert reading(list(REPORTED), [1.0, 2.0]).is_report
    assert not first.is_report
    assert not first.layout.has_no_tensors
    assert reading(MEASURED[1:], [1.0, 1.0, 1.0]).layout.has_no_tensors


def test_a_filter_keeps_readings_of_different_sites_apart():
    without = SiteFilter(lambda site: site.kind in (Kind.LOSS, Kind.METRIC))
    for _ in range(2):
        left = without(reading(MEASURED, [5.0, 0.1, 7.0, 3.0]))
        assert [str(site) for site in left.sites] == [
            "gradient net/a/kernel", "scalar learning_rate", "input input",
        ]  # fmt: skip
        assert left.summary.sum.tolist() == [5.0, 0.1, 3.0]
        assert len(without(reading(REPORTED, [1.0, 2.0]))) == 0
    again = without(reading(MEASURED, [1.0, 1.0, 1.0, 1.0]))
    assert again.sites is left.sites
