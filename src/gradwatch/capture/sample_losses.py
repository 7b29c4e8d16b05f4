"""The losses of the single samples of a batch: which are the worst."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwatch.capture.errors import WrongPlaceError, WrongTypeError, WrongValueError
from gradwatch.capture.shapes import common_framework, shape_of
from gradwatch.capture.step_tensors import under
from gradwatch.core import SAMPLE_MEDIAN, SAMPLES, Kind, Site, Tensor, sample_path

KEPT = 3
"""Of the samples, those with the highest losses."""

SampleNumbers = Callable[[], Mapping[Site, float]]


def worst_samples(
    losses: NDArray[Any], names: NDArray[Any] | None = None, prefix: str = ""
) -> dict[Site, float]:
    """The number of samples, their median loss, and the worst with index and loss, by site.

    `losses` has a sample in each row; of several losses of a sample, such as those of tokens, it
    is the mean. NaN is worse than any number. `names` are numbers of the samples in the data.
    """
    each = np.asarray(losses, np.float64).reshape(len(losses), -1).mean(axis=1)
    worst = np.argsort(-np.where(np.isnan(each), np.inf, each), kind="stable")[:KEPT]
    found = {SAMPLES: float(each.size), SAMPLE_MEDIAN: float(np.median(each))}
    for rank, index in enumerate(worst, 1):
        found[sample_path(rank, "index")] = float(index)
        found[sample_path(rank, "loss")] = float(each[index])
        if names is not None:
            found[sample_path(rank, "name")] = float(names[index])
    return {Site(Kind.SAMPLE_LOSS, under(prefix, path)): x for path, x in found.items()}


def fetched_samples(losses: Tensor, samples: Any, prefix: str) -> SampleNumbers:
    """Start copying the losses of a batch to the host; raises if they are no such losses."""
    if isinstance(losses, Mapping):
        raise WrongTypeError(
            "losses= has the loss of each sample of the batch, in one tensor. Received: "
            f"{type(losses).__name__}. The terms of a loss are given by name as metrics=."
        )
    own = common_framework([losses])
    shape = shape_of(losses)
    if not shape or not shape[0]:
        raise WrongValueError(
            "losses= has the loss of each sample of the batch, before it is reduced. "
            f"Received: shape={shape}. In torch, that is reduction='none'."
        )
    if own.is_traced(losses):
        raise WrongPlaceError(
            "monitor.record() was given losses= inside a compiled function. Return them from the "
            "function, and record them outside."
        )
    names = None if samples is None else _names(samples, shape[0])
    wait = own.fetch({"losses": own.copy(losses)}, ["losses"])
    return lambda: worst_samples(wait()["losses"], names, prefix)


def _names(samples: Any, count: int) -> NDArray[Any]:
    """The numbers of the samples, copied: a loader may use the memory again."""
    host = samples.detach().cpu().numpy() if hasattr(samples, "detach") else samples
    names = np.array(host)
    if names.dtype.kind not in "iu" or names.shape != (count,):
        raise WrongTypeError(
            "samples= has a whole number for each of losses=, such as its index in the data. "
            f"Received: {names.shape} of {names.dtype} for {count} losses."
        )
    return names
