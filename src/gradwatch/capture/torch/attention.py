"""How far the attention of a network has decided, from the autograd graph of its loss."""

from typing import Any

import torch

from gradwatch.capture.torch.called_modules import CalledModules
from gradwatch.capture.torch.graph_nodes import ancestors, operation, result_shape
from gradwatch.capture.torch.untrained import is_fresh
from gradwatch.core import TorchModule

ATTENTION_PEAK = "attention_peak"
"""The largest weight that attention gives, at the start."""
_MOST_NODES = 20_000
_KEYS = 8
"""Of fewer, one may get most of the weight by chance, or because others are masked."""
_SAMPLES = 4
"""Samples and heads that are looked at."""
_STEPS = 3


class EarlyAttention:
    """How far attention has decided, in the first steps of a training from scratch."""

    def __init__(self, module: TorchModule, called: CalledModules) -> None:
        self._module, self._called = module, called
        self._steps = _STEPS

    def read(self, root: Any) -> Any | None:
        """The peak of a step, from the node of its loss; None if it is not to be known."""
        if not self._called.are_tensors_kept or self._steps <= 0:
            return None
        is_first = self._steps == _STEPS
        self._steps -= 1
        peak = None if is_first and not is_fresh(self._module) else attention_peak(root)
        if peak is None:
            self._steps = 0
        return peak


def attention_peak(root: Any) -> Any | None:
    """The largest weight of a query, in the median over queries, of the layer where it is largest.

    It is about 1 over the number of keys before training, and 1 if the logits are far too large.
    None without attention. Only for graphs that keep their tensors: others compute them again.
    """
    with torch.no_grad():
        found = [peak for node in ancestors(root, _MOST_NODES) if (peak := _peak(node)) is not None]
        return torch.stack(found).max() if found else None


def _peak(node: Any) -> Any | None:
    name = operation(node)
    if name in ("Softmax", "SafeSoftmax"):
        shape = result_shape(node)
        # Over the last axis, of several queries for each sample.
        if shape is None or len(shape) < 3 or shape[-1] < _KEYS or shape[-2] < _KEYS // 2:
            return None
        if getattr(node, "_saved_dim", None) not in (len(shape) - 1, (1 << 64) - 1, -1):
            return None
        return _of_weights(node._saved_result[:_SAMPLES])
    if name.startswith("ScaledDotProduct"):
        return _of_scores(node)
    return None


def _of_scores(node: Any) -> Any | None:
    query, key = (x[:_SAMPLES, :_SAMPLES].float() for x in (node._saved_query, node._saved_key))
    mask = getattr(node, "_saved_attn_mask", getattr(node, "_saved_attn_bias", None))
    if key.shape[-2] < _KEYS or query.shape[1] != key.shape[1] or mask is not None:
        return None
    scale = getattr(node, "_saved_scale", None) or query.shape[-1] ** -0.5
    scores = query @ key.transpose(-2, -1) * scale
    if node._saved_is_causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    return _of_weights(scores.softmax(-1))


def _of_weights(weights: Any) -> Any:
    return weights.detach().float().amax(-1).flatten().median()
