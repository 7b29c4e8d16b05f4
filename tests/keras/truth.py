"""The true gradients of a training step, and statistics in float64, without gradwatch.

The gradients come from a differentiation of its own: `tf.GradientTape`,
`jax.grad` or `torch.autograd.grad`, of the model's loss on the step's batch, with
every variable, the random seeds among them, set to what it was before the step.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from tests.keras.models import BATCH, Case


def batch_of(case: Case, step: int) -> tuple[Any, Any, Any]:
    """The (x, y, sample_weight) of a step counted from 0, of an unshuffled `fit`."""
    start = BATCH * step % len(keras.tree.flatten(case.x)[0])

    def cut(array: Any) -> Any:
        return array[start : start + BATCH]

    y = keras.tree.map_structure(cut, case.y)
    return keras.tree.map_structure(cut, case.x), y, _sample_weight(case, y, cut)


def _sample_weight(case: Case, y: Any, cut: Any) -> Any:
    if "sample_weight" in case.fit:
        return cut(case.fit["sample_weight"])
    if "class_weight" in case.fit:
        return np.array([case.fit["class_weight"][int(label)] for label in y], "float32")
    return None


def gradients(model: Any, state: list[np.ndarray], batch: tuple[Any, Any, Any]) -> list[Any]:
    """The gradient of each trainable weight; None where the framework gives none."""
    for variable, value in zip(model.variables, state, strict=True):
        variable.assign(value)
    x, y, sample_weight = (
        None if part is None else keras.tree.map_structure(keras.ops.convert_to_tensor, part)
        for part in batch
    )

    def loss() -> Any:
        with_training = {"training": True} if model._call_has_training_arg else {}
        y_pred = model(x, **with_training)
        return model.compute_loss(
            x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=True
        )

    differentiate = {"tensorflow": _tape, "jax": _jax_grad, "torch": _autograd}
    found = differentiate[keras.backend.backend()](model, loss)
    return [None if g is None else np.asarray(g, np.float64) for g in found]


def _tape(model: Any, loss: Any) -> list[Any]:
    import tensorflow as tf

    with tf.GradientTape() as tape:
        value = loss()
    found = tape.gradient(value, [v.value for v in model.trainable_weights])
    # An embedding's gradient is sparse; this makes it dense.
    return [None if g is None else tf.convert_to_tensor(g).numpy() for g in found]


def _jax_grad(model: Any, loss: Any) -> list[Any]:
    import jax

    def stateless_loss(values: list[Any]) -> Any:
        mapping = list(zip(model.trainable_weights, values, strict=True))
        with keras.StatelessScope(state_mapping=mapping, collect_losses=True):
            return loss()

    return list(jax.jit(jax.grad(stateless_loss))([v.value for v in model.trainable_weights]))


def _autograd(model: Any, loss: Any) -> list[Any]:
    import torch

    tensors = [v.value for v in model.trainable_weights]
    return list(torch.autograd.grad(loss(), tensors, allow_unused=True))


def unique_paths(model: Any) -> dict[str, Any]:
    """The model's weights under the paths that gradwatch documents.

    Keras's own; the n-th layer of one path is called `path#n`.
    """
    found: dict[str, Any] = {}
    seen: dict[str, int] = {}
    for variable in model.weights:
        seen[variable.path] = n = seen.get(variable.path, 0) + 1
        layer, _, name = variable.path.rpartition("/")
        found[variable.path if n == 1 else f"{layer}#{n}/{name}"] = variable
    return found


def statistics(values: Any) -> dict[str, float]:
    """Every statistic of an array, written out in float64; NaN where it is not defined."""
    x = np.asarray(values, np.float64).ravel()
    ok = x[np.isfinite(x)]
    n = len(ok)
    undefined = float("nan")
    centre = ok.sum() / n if n else undefined
    return {
        "count": len(x),
        "nan": np.count_nonzero(np.isnan(x)),
        "posinf": np.count_nonzero(x == np.inf),
        "neginf": np.count_nonzero(x == -np.inf),
        "zeros": np.count_nonzero(x == 0),
        "sum": ok.sum(),
        "l1": np.abs(ok).sum(),
        "l2": np.sqrt((ok**2).sum()),
        "linf": np.abs(ok).max() if n else undefined,
        "rms": np.sqrt((ok**2).sum() / n) if n else undefined,
        "mean": centre,
        "std": np.sqrt(((ok - centre) ** 2).sum() / n) if n else undefined,
        "min": ok.min() if n else undefined,
        "max": ok.max() if n else undefined,
    }
