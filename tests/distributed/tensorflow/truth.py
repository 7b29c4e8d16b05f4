"""Comparing summaries, and what they should be by NumPy in float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradwatch import Kind, Reading

WITHIN = 1e-5


def assert_same_summaries(received: Reading, expected: Reading, within: float = WITHIN) -> None:
    """All numbers of all sites; a sum may be off by as much of the sum of magnitudes."""
    assert list(received.sites) == list(expected.sites)
    a, b = vars(received.summary), vars(expected.summary)
    scale = np.maximum(np.abs(b["min"]), np.abs(b["max"]))
    for name in ("count", "nan", "posinf", "neginf"):
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)
    for name, size in (
        ("sum", b["sum_abs"]),
        ("sum_abs", b["sum_abs"]),
        ("sum_squares", b["sum_squares"]),
        ("min", scale),
        ("max", scale),
    ):
        for i, site in enumerate(received.sites):
            if not b["count"][i]:
                continue
            off = abs(a[name][i] - b[name][i])
            assert off <= within * size[i], (str(site), name, a[name][i], b[name][i])


def assert_summarises(
    reading: Reading, kind: Kind, truth: Mapping[str, Any], prefix: str = ""
) -> None:
    """The reading's sites of that kind are these arrays, by path."""
    paths = [site.path for site in reading.sites if site.kind is kind]
    assert sorted(paths) == sorted(prefix + path for path in truth)
    for path, array in truth.items():
        x = np.asarray(array, np.float64)
        i = next(
            i for i, s in enumerate(reading.sites) if s.kind is kind and s.path == prefix + path
        )
        one = reading.summary[i]
        assert float(one.count) == x.size
        magnitude = np.abs(x).sum()
        for name, received, expected in (
            ("sum", one.sum, x.sum()),
            ("sum_abs", one.sum_abs, magnitude),
            ("min", one.min, x.min()),
            ("max", one.max, x.max()),
        ):
            assert abs(float(received) - expected) <= WITHIN * magnitude, (path, name)
        l2 = float(reading.statistic("l2")[i])
        np.testing.assert_allclose(l2, np.linalg.norm(x), rtol=WITHIN, atol=1e-12, err_msg=path)
