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


OPS: Any = keras.ops
"""The operations of Keras. Before 3.12, `searchsorted` takes no tensor of a graph of TensorFlow."""

if _VERSION < (3, 12) and keras.backend.backend() == "tensorflow":
    OPS = SimpleNamespace(**vars(keras.ops) | {"searchsorted": _searchsorted})
