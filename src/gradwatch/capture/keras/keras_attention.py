"""The attention of Keras layers, from the projected queries and keys that they compute it of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from gradwatch.capture.keras.model_parts import fact
from gradwatch.capture.sampled_queries import sampled
from gradwatch.capture.taps import Passage, Tap
from gradwatch.core import KerasLayer, Kind, Tensor
from gradwatch.util import Reporter

METHOD = "_compute_attention"
"""What such a layer calls with its queries and keys: it may be overridden, says Keras."""
_HIDDEN = -1e9


def has_attention(layer: KerasLayer) -> bool:
    kinds = (keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention)
    return isinstance(layer, kinds) and callable(getattr(layer, METHOD, None))


class AttentionInputs:
    """Queries and keys of one call, of (batch, length, heads, size), from which all follows.

    The scores are computed only when they are asked for, where the step is measured.
    """

    def __init__(
        self, query: Tensor, key: Tensor, mask: Tensor, is_causal: bool, scale: float
    ) -> None:
        self._query, self._key, self._mask = query, key, mask
        self._is_causal, self._scale = is_causal, scale
        self._numbers: dict[Kind, Tensor] | None = None

    def __getitem__(self, kind: Kind) -> Tensor:
        if self._numbers is None:
            self._numbers = self._measured()
        return self._numbers[kind]

    def _measured(self) -> dict[Kind, Tensor]:
        ops = keras.ops
        length, keys = ops.shape(self._query)[1], ops.shape(self._key)[1]
        chosen = sampled(length)
        query = ops.cast(self._query[:, chosen], "float32") * self._scale
        scores = ops.einsum("btnh,bsnh->bnts", query, ops.cast(self._key, "float32"))
        mask = None
        if self._mask is not None:
            # (batch, queries, keys), or with an axis of heads; an axis may be 1.
            mask = ops.cast(self._mask, "bool")
            mask = mask if len(mask.shape) == 4 else mask[:, None]
            mask = mask if mask.shape[-2] == 1 else mask[:, :, chosen]
        if self._is_causal:
            earlier = ops.arange(keys)[None, :] <= ops.arange(length)[chosen, None]
            mask = earlier if mask is None else ops.logical_and(mask, earlier)
        if mask is not None:
            scores = ops.where(mask, scores, _HIDDEN)
        weights = ops.softmax(scores, axis=-1)
        products = weights * ops.log(ops.where(weights > 0, weights, 1.0))
        return {
            Kind.ATTENTION_LOGIT: ops.max(scores, axis=-1),
            Kind.ATTENTION_ENTROPY: -ops.sum(products, axis=-1),
        }


class AttentionTap:
    """Notes the queries and keys of layers, while a model's step is traced or run."""

    def __init__(self, tap: Tap, reporter: Reporter) -> None:
        self._tap, self._reporter = tap, reporter
        self._found: dict[int, AttentionInputs] = {}

    def take(self, layer: KerasLayer) -> AttentionInputs | None:
        """What was noted in the last call of a layer."""
        return self._found.pop(id(layer), None)

    def wrapped(self, layer: KerasLayer) -> Callable[..., Any]:
        """The layer's own method, which also notes its arguments."""
        compute = getattr(layer, METHOD)

        def noting(query: Any, key: Any, *args: Any, **kwargs: Any) -> Any:
            result = compute(query, key, *args, **kwargs)
            with self._reporter.guard("noting attention", "attention of that step"):
                self._note(layer, query, key, *args, **kwargs)
            return result

        return noting

    def _note(
        self,
        layer: Any,
        query: Any,
        key: Any,
        value: Any,
        attention_mask: Any = None,
        *_: Any,
        use_causal_mask: bool = False,
        **__: Any,
    ) -> None:
        self._found.pop(id(layer), None)
        # Keras computes attention over several axes only with a mask of as many more.
        if len(query.shape) != 4:
            return
        try:
            queries, keys, mask = map(self._noted, (query, key, attention_mask))
        except TypeError:
            return  # Nothing that can be tapped; it is said once the step has ended.
        if all(x is None or self._tap.can_leave(x) for x in (queries, keys, mask)):
            scale = fact(layer, "_inverse_sqrt_key_dim") or fact(layer, "_inverse_sqrt_head_dim")
            scale = query.shape[-1] ** -0.5 if scale is None else float(scale)
            inputs = AttentionInputs(queries, keys, mask, bool(use_causal_mask), scale)
            self._found[id(layer)] = inputs

    def _noted(self, tensor: Tensor | None) -> Tensor | None:
        if tensor is None:
            return None
        passage = Passage(wants_gradient=False)
        self._tap.through(keras.ops.convert_to_tensor(tensor), passage)
        return passage.output
