"""How much the samples of a batch differ."""

from typing import Any

import torch

_FEWEST = 4
"""Samples: of fewer, it may be chance that they are alike."""
_DIRECTIONS = 8
"""Elements of a sample, from which on directions are compared."""


def variation(tensor: Any) -> Any | None:
    """The RMS of what distinguishes samples from their mean, relative to the RMS of all elements.

    It is 0 if all samples are alike, and at most 1. Samples of several elements are brought to one
    length before. None of few samples.
    """
    if tensor.ndim < 1 or tensor.shape[0] < _FEWEST or not tensor.numel():
        return None
    if tensor.layout is not torch.strided or tensor.is_complex():
        return None
    with torch.no_grad():
        samples = tensor.detach().reshape(tensor.shape[0], -1).float()
        if samples.shape[1] >= _DIRECTIONS:
            samples = torch.nn.functional.normalize(samples, dim=1)
        apart = (samples - samples.mean(0)).pow(2).mean()
        return (apart / samples.pow(2).mean().clamp_min(1e-30)).sqrt()
