"""What `cuda_moments` measures, by NumPy in float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwatch.core import FIELDS
from gradwatch.core.reference import summarize
from gradwatch.measure.kernels.cuda_moments import ROWS, StepMoments


def rows_by_hand(several: Sequence[StepMoments]) -> Any:
    """The rows in the kernel's order; NaN for what is not there."""
    rows = np.full((ROWS, len(several), len(FIELDS)), np.nan)
    for i, one in enumerate(several):
        for role, x in enumerate(_roles(one)):
            if x is not None:
                rows[role, i] = summarize(x)
    return rows.reshape(-1, len(FIELDS))


def _roles(one: StepMoments) -> list[Any]:
    """Gradient, moments, normalized gradient, where epsilon rules, weight, update, cosine."""
    g, m, v, w, before = (
        None if x is None else x.detach().double().cpu().numpy() for x in one.tensors
    )
    normalized = ruled = update = cosine = None
    if v is not None and one.floor is not None:
        floor, root = float(one.floor), np.sqrt(np.maximum(v, 0))
        normalized = g / np.maximum(root, floor) * float(one.correction) ** 0.5
        ruled = (root < floor).astype(float)
    if before is not None:
        update = w - before
    if m is not None:
        norms = np.linalg.norm(g) * np.linalg.norm(m)
        found = 0.0 if norms == 0 else np.sum(g * m) / norms
        cosine = np.array([-found if one.is_descent else found])
    return [g, m, v, normalized, ruled, w, update, cosine]
