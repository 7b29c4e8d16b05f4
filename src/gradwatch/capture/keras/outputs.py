"""The outputs of layers in a training step, and the gradients with respect to them."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import keras
from keras.src.backend.common.masking import get_keras_mask, set_keras_mask
from keras.src.backend.common.symbolic_scope import in_symbolic_scope

from gradwatch.capture.keras.attributes import replaced
from gradwatch.capture.keras.keras_attention import METHOD, AttentionTap
from gradwatch.capture.keras.layers import ModelLayer
from gradwatch.capture.keras.model_parts import fact
from gradwatch.capture.taps import Passage, Tap, always
from gradwatch.capture.taps.calls import MOST_CALLS, SATURATION_MARGIN, Call
from gradwatch.core import KerasLayer, Kind, Tensor
from gradwatch.measure import Framework
from gradwatch.util import Reporter
from gradwatch.watches import ATTENTION_KINDS


class LayerTap:
    """Notes what chosen layers return, while a model's step is traced or run."""

    def __init__(
        self,
        tap: Tap,
        reporter: Reporter,
        is_watched_replica: Callable[[], bool] = always,
    ) -> None:
        self._tap = tap
        self._reporter = reporter
        self._is_watched_replica = is_watched_replica
        self._calls: dict[int, list[Call]] = {}
        self._recomputing = 0
        self._differentiated: Collection[int] | None = None
        self._taken: Callable[[Any, Passage], None] | None = None
        self._attention = AttentionTap(tap, reporter)
        self._attending: Collection[int] = ()
        self._note = tap.aside(self._noted)

    def calls(self, layer: Any) -> list[Call]:
        return self._calls.get(id(layer), [])

    def forget(self) -> None:
        """Let go of the step's tensors."""
        self._calls = {}

    @contextmanager
    def on(
        self,
        chosen: Collection[KerasLayer],
        every_layer: Collection[KerasLayer],
        differentiated: Collection[int] | None = None,
        taken: Callable[[Any, Passage], None] | None = None,
        attending: Collection[int] = (),
    ) -> Iterator[None]:
        """Note what the chosen layers return, while the context lasts.

        All layers are needed to know what is called inside one that is rematerialised. Gradients
        are wanted of the layers with the ids in `differentiated`, or of all if it is None, and
        attention of those in `attending`. `taken` is called with a layer and what passed its tap,
        which it may take at once.
        """
        self._calls = {}
        self._recomputing = 0
        self._differentiated = differentiated
        self._taken, self._attending = taken, attending
        try:
            with replaced(self._taps(chosen, every_layer)), self._tap.watching():
                yield
        finally:
            self._taken = None

    def _taps(
        self, chosen: Collection[KerasLayer], every_layer: Collection[KerasLayer]
    ) -> Iterator[tuple[KerasLayer, dict[str, Any]]]:
        ids = {id(layer) for layer in chosen}
        for layer in every_layer:
            rematerialised = _is_rematerialised(layer)
            if rematerialised or id(layer) in ids:
                name = name_of_call(layer)
                call = self._wrapped(layer, name, id(layer) in ids, rematerialised)
                inner = (
                    {METHOD: self._attention.wrapped(layer)} if id(layer) in self._attending else {}
                )
                yield layer, {name: call, **inner}

    def refusal(self, call: Call) -> str | None:
        """Why a call's tensors cannot be recorded; after the step. None if they can."""
        if call.refusal is None:
            held = [p for p in call.passages if not p.is_measured]
            tensors = [t for p in held for t in (p.output, p.gradient) if t is not None]
            if not all(map(self._tap.can_leave, tensors)):
                return "inside a loop, a branch or a function compiled on its own"
        return call.refusal

    def _wrapped(
        self, layer: Any, name: str, is_chosen: bool, rematerialised: bool
    ) -> Callable[..., Any]:
        call = getattr(layer, name)

        def tapped_call(*args: Any, **kwargs: Any) -> Any:
            self._recomputing += rematerialised
            try:
                outputs = call(*args, **kwargs)
            finally:
                self._recomputing -= rematerialised
            # When Keras only works out shapes, nothing is computed.
            if not is_chosen or in_symbolic_scope():
                return outputs
            try:
                if not self._is_watched_replica():
                    return outputs
                return self._note(layer, (args, kwargs), outputs, rematerialised)
            except Exception as error:
                self._reporter.internal_error(
                    error, f"noting the output of a {type(layer).__name__}", "its outputs"
                )
                return outputs

        return tapped_call

    def _noted(self, layer: Any, inputs: Any, outputs: Any, rematerialised: bool) -> Any:
        calls = self._calls.setdefault(id(layer), [])
        call = Call(len(calls) + 1)
        calls.append(call)
        if rematerialised or self._recomputing:
            call.refusal = "recomputed in the backward pass (keras.RematScope)"
        elif call.number > MOST_CALLS:
            call.refusal = f"call {MOST_CALLS + 1} and later ones of one step"
        if call.refusal:
            return outputs
        # Nearly always it is a single tensor; with hundreds of layers, Keras's trees add up.
        is_single = keras.ops.is_tensor(outputs)
        flat = [outputs] if is_single else keras.tree.flatten(outputs)
        differentiated = self._differentiated is None or id(layer) in self._differentiated
        given = set(_ids(inputs)) if differentiated else set()
        passed = []
        try:
            for tensor in flat:
                # A layer may return its input as it is, which has one gradient, from all who
                # use it, and none of its own behind the layer.
                is_input = id(tensor) in given
                passage = Passage(wants_gradient=differentiated and not is_input, is_input=is_input)
                passed.append(None if tensor is None else self._pass(tensor, passage))
                call.passages.append(passage)
        except TypeError as error:
            call.refusal = f"not tensors that can be tapped but {error}"
            return outputs
        if call.passages:
            call.passages[0].attention = self._attention.take(layer)
        if self._taken is not None:
            for passage in call.passages:
                if passage.output is not None and self._tap.can_leave(passage.output):
                    self._taken(layer, passage)
        if all(ours is theirs for ours, theirs in zip(passed, flat, strict=True)):
            return outputs
        return passed[0] if is_single else keras.tree.pack_sequence_as(outputs, passed)

    def _pass(self, tensor: Tensor, passage: Passage) -> Tensor:
        passed = self._tap.through(tensor, passage)
        mask = get_keras_mask(tensor)
        if mask is not None and passed is not tensor:
            set_keras_mask(passed, mask)
        return passed


def measured_tensor(
    own: Framework, kind: Kind, layer: ModelLayer, passage: Passage, unscaled: Any
) -> Tensor:
    """The tensor of a kind that one passage through a layer's tap yields, or its row's place.

    A loss scale is divided out of gradients by `unscaled`; other kinds do not need it.
    """
    if kind in passage.measured:
        return passage.measured[kind]
    if kind in ATTENTION_KINDS:
        return passage.attention[kind]
    ops = keras.ops
    x = passage.output
    if kind is Kind.OUTPUT:
        return x
    if kind is Kind.OUTPUT_GRADIENT:
        return None if passage.gradient is None else unscaled(passage.gradient)
    if kind is Kind.DEAD_UNIT:
        if own.NAME in ("jax", "torch"):
            return own.dead_units(x, layer.unit_axis)
        rank = len(x.shape)
        if rank < 2:
            return None
        unit = layer.unit_axis % rank
        dead = ops.all(ops.equal(x, 0), axis=tuple(a for a in range(rank) if a != unit))
        return ops.cast(dead, "float32")
    assert layer.bounds is not None
    low, high = layer.bounds
    return own.outside(x, low + SATURATION_MARGIN, high - SATURATION_MARGIN)


def _ids(given: Any) -> Iterator[int]:
    """The ids of a layer's arguments, in any nesting."""
    # Not by Keras's trees, whose functions refer to themselves: their arguments would stay
    # alive until garbage is collected.
    if isinstance(given, dict):
        given = tuple(given.values())
    if isinstance(given, tuple | list):
        for each in given:
            yield from _ids(each)
    else:
        yield id(given)


def name_of_call(layer: Any) -> str:
    """The method that Keras calls: a quantized layer has another."""
    return "call" if fact(layer, "quantization_mode") is None else "quantized_call"


def _is_rematerialised(layer: Any) -> bool:
    scope: Any = fact(layer, "_remat_mode")
    mode = getattr(scope, "mode", None)
    # In mode "activations" only what is inside the layer's call is recomputed.
    return mode in ("full", "larger_than") or (
        mode == "list_of_layers" and layer.name in (scope.layer_names or ())
    )
