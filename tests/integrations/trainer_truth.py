"""Truths for trainings by trainers: gradients in float64, and what a run has recorded."""

import numpy as np

import gradwatch


def clipped(gradients, most):
    total = np.sqrt(sum(np.square(g).sum() for g in gradients.values()))
    return {n: g * min(1.0, most / (total + 1e-6)) for n, g in gradients.items()}


def norms(keep, kind):
    """By step, the L2 norm of each gradient."""
    return {
        reading.step: {
            site.path: float(np.sqrt(reading.summary.sum_squares[i]))
            for i, site in enumerate(reading.sites)
            if site.kind is kind
        }
        for reading in keep.readings
        if any(site.kind is kind for site in reading.sites)
    }


def assert_norms(found, truth):
    """Each norm is that of the truth, to 1e-6 of the norm of all."""
    true = {n: np.linalg.norm(np.asarray(g, "f8").ravel()) for n, g in truth.items()}
    total = np.sqrt(sum(x * x for x in true.values()))
    assert found.keys() == true.keys()
    for name, norm in true.items():
        assert abs(found[name] - norm) <= 1e-6 * total, name


def numbers(directory, kind):
    """By path, the numbers of a kind by step, as they are in the stored run."""
    run = gradwatch.open(directory)
    # Numbers that are not finite have no mean.
    rows = run.sql(f"select path, step, mean from summaries where kind = '{kind}' order by step")
    found = {}
    for path, step, value in rows.fetchall():
        found.setdefault(path, {})[step] = float("nan") if value is None else value
    return found
