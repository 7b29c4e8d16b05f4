"""Parts of a TensorFlow graph that XLA compiles although the graph itself is not.

In a graph, each operation writes its whole result for the next one to read. XLA fuses several
into one loop, so on a CPU statistics take a third of the time (`benchmarks/limits.py`). One
function is compiled for all tensors of a size. Sizes are few, so compiling takes little time, and
several tensors are measured in parallel.
"""

import functools
from collections.abc import Callable

import tensorflow as tf

from gradwatch.core import Tensor


def is_compiled() -> bool:
    """Whether XLA will compile the graph that is being made."""
    if tf.executing_eagerly():
        return False
    try:
        # TensorFlow has no public name for it.
        from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext
    except ImportError:
        return False
    return bool(GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()))


def settled(x: Tensor) -> Tensor:
    """The same tensor, which XLA computes only once, where it compiles the graph.

    Otherwise it computes it again for every use, which takes twice the time.
    """
    if not is_compiled():
        return x
    try:
        # TensorFlow has no public name for it.
        from tensorflow.compiler.tf2xla.python.xla import optimization_barrier
    except ImportError:
        return x
    return optimization_barrier(x)[0]


def fused(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The same function of a tensor, compiled by XLA where it is called in a plain graph.

    Not if called eagerly, since it would be compiled for each new shape; nor with several devices,
    of which XLA may choose the wrong one.
    """
    compiled = tf.function(function, autograph=False, jit_compile=True)

    @functools.wraps(function)
    def call(x: Tensor) -> Tensor:
        pays = not tf.executing_eagerly() and not tf.distribute.has_strategy() and _is_possible()
        return (compiled if pays else function)(x)

    return call


@functools.cache
def _is_possible() -> bool:
    """Whether there is one device, a CPU, and an XLA for it."""
    devices = tf.config.list_logical_devices()
    if [device.device_type for device in devices] != ["CPU"]:
        return False
    try:
        with tf.init_scope():
            return bool(tf.function(lambda x: x + 1, jit_compile=True)(tf.constant(0)) == 1)
    except Exception:  # Some builds of TensorFlow have none.
        return False
