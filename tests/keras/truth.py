"""The true gradients of a training step, and statistics in float64, without gradwatch.

The gradients come from a differentiation of its own: `tf.GradientTape`,
`jax.grad` or `torch.autograd.grad`, of the model's loss on the step's batch, with
every variable, the random seeds among them, set to what it was before the step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from gradwatch.core import NONFINITE
from gradwatch.core.reference import count_cells
from tests.keras.cases import BATCH, Case
from tests.keras.support import State, seed_everything


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


Differentiate = Callable[[State, tuple[Any, Any, Any]], list[Any]]


def gradients_of(model: Any, with_xla: bool = False) -> Differentiate:
    """A function of a state and a batch: the gradient of each trainable weight.

    Args:
        model: the model, whose variables the function sets to the state.
        with_xla: whether TensorFlow is to compile it; XLA draws other random
            numbers from a seed than TensorFlow's own kernels do.

    Returns:
        The function. It gives float64 arrays, and None where the framework gives
        no gradient.
    """

    def loss(x: Any, y: Any, sample_weight: Any) -> Any:
        with_training = {"training": True} if model._call_has_training_arg else {}
        y_pred = model(x, **with_training)
        return model.compute_loss(
            x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=True
        )

    if keras.backend.backend() == "tensorflow":
        differentiate = _tape(model, loss, with_xla)
    else:
        differentiate = {"jax": _jax_grad, "torch": _autograd}[keras.backend.backend()](model, loss)

    def gradients(state: State, batch: tuple[Any, Any, Any]) -> list[Any]:
        state.restore(model)
        tensors = [
            None if part is None else keras.tree.map_structure(keras.ops.convert_to_tensor, part)
            for part in batch
        ]
        return [None if g is None else np.asarray(g, np.float64) for g in differentiate(*tensors)]

    return gradients


def _tape(model: Any, loss: Any, with_xla: bool) -> Any:
    import tensorflow as tf

    def differentiate(*batch: Any) -> list[Any]:
        with tf.GradientTape() as tape:
            value = loss(*batch)
        found = tape.gradient(value, [v.value for v in model.trainable_weights])
        # An embedding's gradient is sparse; this makes it dense.
        return [None if g is None else tf.convert_to_tensor(g) for g in found]

    return tf.function(differentiate, jit_compile=True) if with_xla else differentiate


def _jax_grad(model: Any, loss: Any) -> Any:
    import jax

    def stateless_loss(trained: list[Any], values: list[Any], *batch: Any) -> Any:
        mapping = [
            *zip(model.variables, values, strict=True),
            *zip(model.trainable_weights, trained, strict=True),
        ]
        with keras.StatelessScope(state_mapping=mapping, collect_losses=True):
            return loss(*batch)

    compiled = jax.jit(jax.grad(stateless_loss))

    def differentiate(*batch: Any) -> list[Any]:
        trained = [v.value for v in model.trainable_weights]
        return list(compiled(trained, [v.value for v in model.variables], *batch))

    return differentiate


def _autograd(model: Any, loss: Any) -> Any:
    import torch

    def differentiate(*batch: Any) -> list[Any]:
        tensors = [v.value for v in model.trainable_weights]
        return list(torch.autograd.grad(loss(*batch), tensors, allow_unused=True))

    return differentiate


def initial_state(case: Case) -> State:
    """What the case's model, made after `seed_everything`, starts from.

    TensorFlow makes the variables of an unbuilt model inside the first step, so
    they are read from a twin.
    """
    seed_everything()
    twin = case.build()
    twin(batch_of(case, 0)[0])
    return State.of(twin)


def left_over_by_keras(model: Any) -> set[int]:
    """The ids of the variables whose gradients Keras on torch forgets to clear.

    It files parameters under their paths, so of two layers of one name the first
    is lost to `zero_grad`, and its gradients add up from step to step.
    """
    if keras.backend.backend() != "torch":
        return set()
    reached = {id(p) for p in model.parameters()}
    return {id(v) for v in model.trainable_weights if id(v.value) not in reached}


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


def assert_statistics(found: dict[str, float], values: Any, rtol: float, what: str) -> None:
    """That recorded statistics are those of `values`.

    Counts are exact. Norms are within `rtol`; what may cancel out is within
    `rtol` of the size of its terms: the sum and the mean of the sum of
    magnitudes, the bounds of the largest magnitude. The standard deviation has
    besides the error that its documentation states, 1e-8 of the RMS.
    """
    true = statistics(values)
    assert set(found) == set(true), what
    slack = dict.fromkeys(("count", "nan", "posinf", "neginf", "zeros"), 0.0)
    slack |= {name: rtol * true[name] for name in ("l1", "l2", "linf", "rms")}
    slack |= {"sum": rtol * true["l1"], "mean": rtol * true["l1"] / max(true["count"], 1)}
    slack |= {"min": rtol * true["linf"], "max": rtol * true["linf"]}
    slack |= {"std": rtol * true["std"] + 1e-8 * true["rms"]}
    wrong = {
        name: f"recorded {found[name]!r}, true {true[name]!r}"
        for name in true
        if not (
            abs(found[name] - true[name]) <= slack[name]
            or (np.isnan(found[name]) and np.isnan(true[name]))
        )
    }
    assert not wrong, f"{what}: {wrong}"


def assert_cells(found: np.ndarray, values: Any, tolerance: float, what: str) -> None:
    """That a histogram is that of elements within `tolerance` of those of `values`.

    An element near the border of a cell may have been counted on its other
    side, so the counts up to each border are compared with those of all elements
    moved up and of all moved down. An exact 0 is taken to be one.
    """
    x = np.asarray(values, np.float64).ravel()
    move = np.where(x == 0, 0.0, tolerance)
    assert found.sum() == x.size, what
    assert found[NONFINITE] == np.count_nonzero(~np.isfinite(x)), what
    up_to_border = np.cumsum(found[:NONFINITE])
    most = np.cumsum(count_cells(x - move)[:NONFINITE])
    least = np.cumsum(count_cells(x + move)[:NONFINITE])
    assert np.all(least <= up_to_border), what
    assert np.all(up_to_border <= most), what
