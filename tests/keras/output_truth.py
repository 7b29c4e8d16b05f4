"""What layers truly return in a step, and the gradients with respect to it, without gradwatch.

To each tensor that a layer returns a tensor of zeros is added. The loss's gradient
with respect to these zeros is the one with respect to the output. So nothing is
intercepted on the way back: an ordinary differentiation gives the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np

from tests.keras.support import State

Truth = dict[str, tuple[np.ndarray, np.ndarray]]


def true_outputs(
    model: Any,
    layers: dict[str, Any],
    state: State,
    batch: tuple[Any, Any, Any],
    with_xla: bool = False,
) -> Truth:
    """The output and its gradient for each tensor that the layers return.

    Args:
        model: the compiled model; its variables are set to `state`.
        layers: the layers by their path.
        state: what the step starts from.
        batch: x, y and sample_weight of the step.
        with_xla: whether TensorFlow is to compile it.

    Returns:
        By `path`, `path@2` for the second call, `path:1` for the second tensor.
    """
    state.restore(model)
    tensors = [
        None if part is None else keras.tree.map_structure(keras.ops.convert_to_tensor, part)
        for part in batch
    ]

    def loss(probes: dict[str, Any] | None, values: list[Any]) -> tuple[Any, dict[str, Any]]:
        mapping = list(zip(model.variables, values, strict=True))
        found: dict[str, Any] = {}
        with (
            keras.StatelessScope(state_mapping=mapping, collect_losses=True),
            _probed(layers, probes, found),
        ):
            return _loss(model, *tensors), found

    values = [v.value for v in model.variables]
    shapes = {k: (v.shape, v.dtype) for k, v in _found(loss, values).items()}
    state.restore(model)
    probes = {k: keras.ops.zeros(s, d) for k, (s, d) in shapes.items() if "float" in str(d)}
    differentiate = {"tensorflow": _tape, "jax": _jax_grad, "torch": _autograd}
    found, gradients = differentiate[keras.backend.backend()](loss, probes, values, with_xla)
    empty = np.zeros(0)
    return {
        path: (
            keras.ops.convert_to_numpy(output),
            empty if gradients.get(path) is None else keras.ops.convert_to_numpy(gradients[path]),
        )
        for path, output in found.items()
    }


def _found(loss: Any, values: Any) -> dict[str, Any]:
    """What the layers return; on JAX without computing it, operation by operation."""
    if keras.backend.backend() != "jax":
        return loss(None, values)[1]
    import jax

    return jax.eval_shape(lambda given: loss(None, given)[1], values)


def _loss(model: Any, x: Any, y: Any, sample_weight: Any) -> Any:
    with_training = {"training": True} if model._call_has_training_arg else {}
    y_pred = model(x, **with_training)
    return model.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=True)


@contextmanager
def _probed(
    layers: dict[str, Any], probes: dict[str, Any] | None, found: dict[str, Any]
) -> Iterator[None]:
    def wrap(path: str, layer: Any) -> Callable[..., Any]:
        original, calls = layer.call, [0]

        def call(*args: Any, **kwargs: Any) -> Any:
            calls[0] += 1
            outputs = original(*args, **kwargs)
            flat = keras.tree.flatten(outputs)
            changed = []
            for i, tensor in enumerate(flat):
                name = path if calls[0] == 1 else f"{path}@{calls[0]}"
                name += f":{i}" if len(flat) > 1 else ""
                found[name] = tensor
                # What Keras hangs on a tensor, and looks for.
                hung = {n: getattr(tensor, n, None) for n in ("_keras_mask", "_keras_logits")}
                if probes is not None and name in probes:
                    tensor = tensor + probes[name]
                for attribute, value in hung.items():
                    if value is not None:
                        setattr(tensor, attribute, value)
                changed.append(tensor)
            return keras.tree.pack_sequence_as(outputs, changed)

        return call

    for path, layer in layers.items():
        vars(layer)["call"] = wrap(path, layer)
    try:
        yield
    finally:
        for layer in layers.values():
            del vars(layer)["call"]


def _tape(loss: Any, probes: Any, values: Any, with_xla: bool) -> Any:
    import tensorflow as tf

    def differentiate() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(probes)
            value, found = loss(probes, values)
        gradients = tape.gradient(value, probes)
        return found, {k: v for k, v in gradients.items() if v is not None}

    return tf.function(differentiate, jit_compile=True)() if with_xla else differentiate()


def _jax_grad(loss: Any, probes: Any, values: Any, with_xla: bool) -> Any:
    import jax

    gradients, found = jax.jit(jax.grad(loss, has_aux=True))(probes, values)
    return found, gradients


def _autograd(loss: Any, probes: Any, values: Any, with_xla: bool) -> Any:
    import torch

    for probe in probes.values():
        probe.requires_grad_()
    value, found = loss(probes, values)
    gradients = torch.autograd.grad(value, list(probes.values()), allow_unused=True)
    return found, dict(zip(probes, gradients, strict=True))
