"""Every statistic of an array in plain NumPy, straight from its definition."""

import numpy as np


def finite(values: np.ndarray) -> np.ndarray:
    wide = values.astype(np.float64)
    return wide[np.isfinite(wide)]


TRUTH = {
    "count": lambda a: a.size,
    "nan": lambda a: np.isnan(a).sum(),
    "posinf": lambda a: np.isposinf(a).sum(),
    "neginf": lambda a: np.isneginf(a).sum(),
    "zeros": lambda a: (a == 0).sum(),
    "sum": lambda a: finite(a).sum(),
    "l1": lambda a: np.abs(finite(a)).sum(),
    "l2": lambda a: np.linalg.norm(finite(a)),
    "linf": lambda a: np.abs(finite(a)).max(initial=-np.inf) if finite(a).size else np.nan,
    "rms": lambda a: np.sqrt((finite(a) ** 2).mean()) if finite(a).size else np.nan,
    "mean": lambda a: finite(a).mean() if finite(a).size else np.nan,
    "std": lambda a: finite(a).std() if finite(a).size else np.nan,
    "min": lambda a: finite(a).min() if finite(a).size else np.nan,
    "max": lambda a: finite(a).max() if finite(a).size else np.nan,
}
"""A new statistic adds its truth here: the tests of all readers and sinks compare with it."""


def shown_truth(name: str, values: np.ndarray) -> float:
    """A statistic as views show it: NaN or infinite if an element is."""
    wide = values.astype(np.float64)
    bad = wide[~np.isfinite(wide)]
    if name in ("count", "nan", "posinf", "neginf", "zeros") or not bad.size:
        return float(TRUTH[name](values))
    signed = name in ("sum", "mean", "min", "max")
    with np.errstate(invalid="ignore"):  # NaN for both signs
        return float((bad if signed else np.abs(bad)).sum())
