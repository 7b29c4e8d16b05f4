"""The scores of attention in a torch module, where it gives them to a softmax.

While a module runs whose attention is measured, torch's softmax and `scaled_dot_product_attention`
are replaced by functions that call them with the same arguments, return their result, and then
look at the scores of some queries. That covers `torch.nn.MultiheadAttention`, the modules of
transformers, and others, whatever they do with positions, masks and groups of heads before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from gradwatch.capture.sampled_queries import sampled
from gradwatch.capture.torch.replaced_functions import ReplacedFunctions, hook_calls
from gradwatch.core import Kind
from gradwatch.util import Reporter

Numbers = dict[Kind, Any]
"""Of each sampled query and head: its largest score, the entropy of its weights."""

_functional = torch.nn.functional
_FUNCTIONS = ReplacedFunctions(
    (
        (_functional, "scaled_dot_product_attention"),
        (_functional, "softmax"),
        (torch, "softmax"),
        (torch.Tensor, "softmax"),
    )
)


def attention_modules(modules: Mapping[str, Any]) -> set[str]:
    """The paths of modules that compute attention, by the names of their classes.

    Of one in another, as in a wrapper that adds a projection, the inner one.
    """
    named = {path for path, module in modules.items() if _is_attention(module)}
    return {p for p in named if not any(other.startswith(f"{p}/") for other in named)}


def _is_attention(module: Any) -> bool:
    name = type(module).__name__.lower()
    return "attention" in name or name.endswith("attn")


class AttentionScores:
    """Measures attention in calls of some modules, in the steps for which `is_on()` says so."""

    def __init__(self, reporter: Reporter, is_on: Callable[[], bool]) -> None:
        self._is_on = is_on
        self.guard = partial(reporter.guard, "measuring attention", "attention of that step")
        self._found: dict[str, list[Numbers]] = {}

    def listen(self, modules: Mapping[str, Any]) -> list[Callable[[], None]]:
        """Begin; the functions that this returns end it."""
        # Before the hook that asks for what was found; also if the call raises.
        return hook_calls(modules, self._begin, self._end, self.guard)

    def take(self, path: str) -> Numbers | None:
        """What was found in the last call of a module; of several softmaxes, together."""
        found = self._found.pop(path, [])
        if len(found) < 2:
            return found[0] if found else None
        return {kind: torch.cat([each[kind].flatten() for each in found]) for kind in found[0]}

    def abandon(self) -> None:
        """Put torch's functions back, if a call was interrupted by what no hook is told of."""
        _FUNCTIONS.abandon(self)

    def is_on(self) -> bool:
        # Computed again for the backward pass (checkpointing), it would count twice.
        return torch._C._current_graph_task_id() == -1 and self._is_on()

    def look(self, path: str, name: str, args: Any, kwargs: Any) -> None:
        scores = (_of_softmax if name == "softmax" else _of_attention)(*args, **kwargs)
        if scores is not None and scores.shape[-1] > 0:
            self._found.setdefault(path, []).append(measured(scores))

    def _begin(self, path: str) -> None:
        if self.is_on():
            self._found.pop(path, None)
            _FUNCTIONS.begin(self, path)

    def _end(self, path: str, outputs: Any) -> None:
        _FUNCTIONS.end(self, path)


def measured(scores: Any) -> Numbers:
    """Of scores whose last axis is that of the keys."""
    with torch.no_grad():
        scores = scores.detach().float()
        weights, largest = scores.softmax(-1), scores.amax(-1)
        entropy = -torch.special.xlogy(weights, weights).sum(-1)
        return {
            Kind.ATTENTION_LOGIT: largest,
            # Of a query from which every key is hidden, all weights are NaN.
            Kind.ATTENTION_ENTROPY: entropy.masked_fill(largest == -torch.inf, 0.0),
        }


def _is_plain(x: Any) -> bool:
    return type(x) in (torch.Tensor, torch.nn.Parameter) and not (
        torch._C._functorch.is_functorch_wrapped_tensor(x)
    )


def _of_softmax(input: Any, dim: int | None = None, *_: Any, **__: Any) -> Any:
    """The scores of some queries that a softmax is given; None if it is not over keys."""
    if not _is_plain(input) or input.ndim < 3 or dim not in (-1, input.ndim - 1):
        return None
    return input[..., sampled(input.shape[-2]), :]


def _of_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """The scores of some queries, as `scaled_dot_product_attention` defines them."""
    if not (_is_plain(query) and _is_plain(key)):
        return None
    chosen = sampled(query.shape[-2])
    with torch.no_grad():
        keys = key.detach().float()
        if enable_gqa:
            keys = keys.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
        factor = query.shape[-1] ** -0.5 if scale is None else scale
        scores = query.detach()[..., chosen, :].float() @ keys.transpose(-2, -1) * factor
        if is_causal:
            at = torch.arange(query.shape[-2], device=query.device)[chosen, None]
            later = torch.arange(key.shape[-2], device=query.device) > at
            scores = scores.masked_fill(later, -torch.inf)
        if attn_mask is not None:
            mask = attn_mask[..., chosen, :] if attn_mask.shape[-2] > 1 else attn_mask
            is_kept = mask.dtype == torch.bool
            scores = scores.masked_fill(~mask, -torch.inf) if is_kept else scores + mask
    return scores
