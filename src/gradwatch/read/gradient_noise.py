"""The gradient noise scale, from the gradients of parts of a batch and of the whole."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Kind, Site
from gradwatch.read.members import MODEL, NotRecordedError
from gradwatch.read.run import Run
from gradwatch.read.steps import EVER, Stretch
from gradwatch.util import suggests_arguments

Array = NDArray[np.float64]
_UNEXPLAINED = 1e-3
"""How far sums of elements may be from a multiple of the parts' sums; float32 rounds to 1e-7."""


@dataclass(frozen=True)
class NoiseScale:
    """How noisy gradients are; see `gradwatch.noise_scale`.

    Attributes:
        value: the noise scale in samples: the trace of the covariance of single samples'
            gradients, divided by the squared norm of the true gradient. Infinite if the
            gradient cannot be told from noise.
        error: its standard error, by leaving out each step in turn; NaN of one step.
        steps: how many steps it is of.
        parts: how many micro-batches or replicas each step had, on average.
    """

    value: float
    error: float
    steps: int
    parts: float

    def __str__(self) -> str:
        return f"{self.value:.3g} +- {self.error:.2g} samples, of {self.steps:,} steps"


@suggests_arguments(
    {**dict.fromkeys(("batch_size", "size"), "micro_batch_size="), "layer": "path="}
)
def noise_scale(
    run: Run,
    micro_batch_size: float,
    path: str = MODEL,
    *,
    steps: Stretch | None = None,
    rank: int | None = None,
) -> NoiseScale:
    """The gradient noise scale of a run, with its error: about the batch size that is worth it.

    It compares the gradients of parts of a step's batch with that of the whole (arXiv
    1812.06162, appendix A): the smaller the noise, the more alike they are. Far smaller batches
    waste steps, far larger ones waste samples. The parts are micro-batches, recorded with
    `monitor.record(micro_batch=...)`, or replicas, with `gradients(per_replica=True)`.

    Args:
        run: a run of which both were recorded.
        micro_batch_size: how many samples are in each part.
        path: a layer, block or variable, as in `Run.series`; the whole model by default.
        steps: the first and the last step to use; all by default. The noise scale grows
            while a model learns.
        rank: the process of a parallel training; the first one by default.

    Raises:
        NotRecordedError: no step has gradients of two parts and of the whole.
        ValueError: the gradient of the steps is no multiple of the mean of its parts: it was
            clipped, or the parts had different weights.

    Example:

    >>> import gradwatch, numpy as np, tempfile
    >>> rng = np.random.default_rng(0)
    >>> directory = tempfile.mkdtemp() + "/run"
    >>> with gradwatch.Monitor(directory, every=1, sinks=[gradwatch.Store()]) as monitor:
    ...     for step in range(1, 51):
    ...         parts = [rng.normal(0.1, 1 / 2, size=100) for _ in range(4)]  # of 4 samples
    ...         for i, part in enumerate(parts):
    ...             monitor.record(gradients={"w": part}, micro_batch=i)
    ...         monitor.record(gradients={"w": np.mean(parts, axis=0)})
    >>> found = gradwatch.noise_scale(gradwatch.open(directory), micro_batch_size=4)
    >>> abs(found.value - 100) < 3 * found.error < 50
    True
    """
    if not micro_batch_size > 0:
        raise ValueError(f"micro_batch_size must be above 0. Received: {micro_batch_size!r}")
    whole, parts = _recorded(run, path, steps or EVER, run.ranks[0] if rank is None else rank)
    factor = _factor(whole, parts)
    squares = [own[:, 0].sum() / factor**2 for own in whole]
    means = [own[..., 0].sum(axis=1).mean() for own in parts]
    counts = np.array([len(own) for own in parts], np.float64)
    return estimate(np.array(squares), np.array(means), counts, micro_batch_size)


def estimate(squares: Array, means: Array, counts: Array, size: float) -> NoiseScale:
    """From squared norms of mean gradients, and the means of those of their parts, by step."""
    spread = counts / (counts - 1)
    noise = size * spread * (means - squares)
    signal = (counts * squares - means) / (counts - 1)
    steps, value = len(squares), _ratio(noise.sum(), signal.sum())
    without = [
        _ratio(noise.sum() - n, signal.sum() - s) for n, s in zip(noise, signal, strict=True)
    ]
    error = math.nan
    if steps > 1 and np.isfinite(without).all():
        error = math.sqrt((steps - 1) * np.var(without))
    return NoiseScale(value, error, steps, float(counts.mean()))


def _ratio(noise: float, signal: float) -> float:
    return float(noise / signal) if signal > 0 else math.inf


def _recorded(run: Run, path: str, stretch: Stretch, rank: int) -> tuple[list[Array], list[Array]]:
    """Squares and sums of elements by site, of each step and of its parts."""
    rows = run.sql(
        """
        SELECT step, coalesce(micro_batch, replica) AS part,
        coalesce(replace(path, 'micro_batch_' || micro_batch || '/', ''),
            replace(path, 'replica_' || replica || '/', ''), path) AS name, l2 * l2, "sum"
        FROM summaries WHERE kind = ? AND rank = ? AND step BETWEEN ? AND ?
        AND nan + posinf + neginf = 0
        """,
        (str(Kind.GRADIENT), rank, *stretch),
    )
    whole: dict[int, dict[str, tuple[float, float]]] = {}
    parts: dict[int, dict[int, dict[str, tuple[float, float]]]] = {}
    for step, part, name, square, total in rows:
        if _is_within(name, path):
            own = whole if part is None else parts.setdefault(step, {})
            own.setdefault(step if part is None else part, {})[name] = square, total
    found = [step for step in sorted(whole) if _is_whole(whole[step], parts.get(step, {}))]
    if not found:
        raise NotRecordedError(
            f"No step has gradients of {path!r} of several micro-batches (or replicas) and of the "
            "whole batch. Record them with monitor.record(micro_batch=...), see docs/noise.md."
        )
    names = {step: sorted(whole[step]) for step in found}
    return (
        [np.array([whole[step][name] for name in names[step]]) for step in found],
        [
            np.array([[own[name] for name in names[step]] for own in parts[step].values()])
            for step in found
        ],
    )


def _is_within(name: str, path: str) -> bool:
    is_named = path == MODEL or name == path or f"/{name}/".find(f"/{path}/") >= 0
    return is_named and not Site(Kind.GRADIENT, name).is_slice


def _is_whole(own: Mapping[str, object], parts: Mapping[int, Mapping[str, object]]) -> bool:
    """Whether a step has at least two parts with the same variables as the whole."""
    return len(parts) > 1 and all(each.keys() == own.keys() for each in parts.values())


def _factor(whole: Sequence[Array], parts: Sequence[Array]) -> float:
    """By what the step's gradient is the mean of its parts: 1, or their number if they add up.

    Sums of elements tell, as they are linear.
    """
    given = np.concatenate([own[:, 1] for own in whole])
    mean = np.concatenate([own[..., 1].mean(axis=0) for own in parts])
    factor = float(given @ mean / (mean @ mean)) if mean.any() else 1.0
    if not np.linalg.norm(given - factor * mean) <= _UNEXPLAINED * np.linalg.norm(given):
        raise ValueError(
            "The gradient of the steps is no multiple of the mean of its micro-batches: it was "
            "clipped, or they count differently. Record the gradient before clipping, and "
            "micro-batches of equal size."
        )
    return factor
