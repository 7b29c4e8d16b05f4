"""What Keras does otherwise in its versions from 3.8 on.

Imported by those who have imported Keras.
"""

from types import SimpleNamespace
from typing import Any

import keras

from gradwatch.compat.versions import numbers_of

_VERSION = numbers_of(keras.__version__)

ENDS_WITH_LAST_BATCH = _VERSION >= (3, 11)
"""Whether `on_train_batch_end` is given the last batch of an execution of several steps. Before, it
is given the first."""

COMMITS_STATE = _VERSION < (3, 12)
"""Whether, on JAX, a step returns its state committed to a device, whatever it was given: Keras
compiles the step for the first batch, and again for all others."""


def _searchsorted(sequence: Any, values: Any, side: str = "left") -> Any:
    import tensorflow as tf

    return tf.searchsorted(sequence, values, side=side)


def _searchsorted_on_jax(sequence: Any, values: Any, side: str = "left") -> Any:
    import jax

    if jax.default_backend() != "gpu":
        return keras.ops.searchsorted(sequence, values, side=side)
    method = "compare_all" if sequence.size <= _COMPARED else "sort"
    return jax.numpy.searchsorted(sequence, values, side=side, method=method)


_COMPARED = 1 << 14
"""On a GPU, a search among so many numbers is quickest by comparing all of them."""

OPS: Any = keras.ops
"""The operations of Keras. Before 3.12, `searchsorted` takes no tensor of a graph of TensorFlow;
on JAX it is a loop, in which a GPU starts some kernels at each turn."""

if keras.backend.backend() == "jax":
    OPS = SimpleNamespace(**vars(keras.ops) | {"searchsorted": _searchsorted_on_jax})
elif _VERSION < (3, 12) and keras.backend.backend() == "tensorflow":
    OPS = SimpleNamespace(**vars(keras.ops) | {"searchsorted": _searchsorted})
