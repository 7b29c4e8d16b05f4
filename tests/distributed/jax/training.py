"""Fitting one of the models, and comparing what was recorded of two fits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import keras
import numpy as np

from gradwatch import Kind
from gradwatch.capture.keras.step_inputs import OF_WHOLE_BATCH
from gradwatch.core import SiteFilter
from tests.distributed.jax.models import BATCH, STEPS, Model


def fit(
    model: Model,
    callbacks: Sequence[Any] = (),
    distribution: Any = None,
    part: slice | None = None,
) -> list[Any]:
    """Train a model from the same start; its weights in the end.

    Args:
        model: which one.
        callbacks: of the fit.
        distribution: one of Keras's; a single device if not given.
        part: which samples of each batch are this process's; all if not given.
    """
    keras.utils.clear_session()
    keras.distribution.set_distribution(distribution)  # Forgotten by clear_session.
    keras.utils.set_random_seed(11)
    net = model.build()
    rows = np.arange(BATCH * STEPS).reshape(STEPS, BATCH)[:, part or slice(None)]
    batches = [(model.x[each], model.y[each]) for each in rows]
    net.fit(
        (batch for batch in batches),
        steps_per_epoch=STEPS,
        verbose=0,
        shuffle=False,
        callbacks=list(callbacks),
    )
    devices = len(net.weights[0].value.sharding.device_set)
    assert devices == (1 if distribution is None else 4)
    return [np.asarray(v.value) for v in net.weights]


def assert_same_summaries(found: Iterable[Any], expected: Iterable[Any], model: Model) -> None:
    """That two lists of readings are of the same tensors, within rounding.

    What may cancel out, sums, is compared with the size of its terms.
    """
    pairs = list(zip(found, expected, strict=True))
    assert len(pairs) == STEPS
    needs_whole_batch = SiteFilter(
        lambda site: site.path in OF_WHOLE_BATCH or site.kind is Kind.SAMPLE_LOSS
    )
    for (one, single), rtol in zip(pairs, model.tolerances, strict=True):
        other = needs_whole_batch(single)
        assert set(one.sites) == set(other.sites)
        for site in other.sites:
            a = one.summary.pack()[one.position[site]]
            b = other.summary.pack()[other.position[site]]
            what = f"step {other.step} {site.kind} {site.path}"
            largest = np.abs(b[8:], where=np.isfinite(b[8:]), out=np.zeros(2)).max()
            # Where steps differ by rounding, so does which elements are exactly 0.
            zeros = 0 if rtol <= 1e-5 else np.inf
            slack = np.array([0, 0, 0, 0, 0, b[6], b[6], 2 * b[7], largest, largest]) * rtol
            slack[4] = zeros
            wrong = ~(np.abs(a - b, where=a != b, out=np.zeros(len(a))) <= slack)
            assert not wrong.any(), f"{what}: {a} and {b}"
