"""Running a measure function in each framework and each way the framework has of running."""

from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import tensorflow as tf
import torch

from gradwatch.compat.versions import numbers_of
from gradwatch.measure import Framework, jax_on_host
from gradwatch.measure import jax as in_jax
from gradwatch.measure import numpy as in_numpy
from gradwatch.measure import tensorflow as in_tensorflow
from gradwatch.measure import torch as in_torch
from gradwatch.measure.kernels import torch_plain

TORCH_TYPES = {
    "bfloat16": (torch.bfloat16, np.int16),
    "float8_e4m3fn": (torch.float8_e4m3fn, np.int8),
    "float8_e5m2": (torch.float8_e5m2, np.int8),
}


def as_torch(x: Any) -> Any:
    x = np.array(x)
    if x.dtype.name in TORCH_TYPES:
        target, integer = TORCH_TYPES[x.dtype.name]
        return torch.from_numpy(x.view(integer)).view(target)
    return torch.from_numpy(x)


def _measure(framework: Framework, name: str, tensors: list[Any]) -> Any:
    if name == "summarize":
        return framework.measure(tensors)[0]
    return framework.measure(tensors, range(len(tensors)))[1]


def _tensorflow(name: str, tensors: list[Any], **options: Any) -> Any:
    def measure(*present: Any) -> Any:
        return _measure(in_tensorflow, name, _with_none(tensors, present))

    function = tf.function(measure, autograph=False, **options) if options else measure
    return function(*[tf.convert_to_tensor(x) for x in tensors if x is not None])


def _jax(name: str, tensors: list[Any], compiled: bool) -> Any:
    def measure(*present: Any) -> Any:
        return _measure(in_jax, name, _with_none(tensors, present))

    function = jax.jit(measure) if compiled else measure
    return function(*[jnp.asarray(x) for x in tensors if x is not None])


def _jax_on_host(name: str, tensors: list[Any]) -> Any:
    """A compiled function returns the tensors, and NumPy measures them."""

    def measure(*present: Any) -> Any:
        given = _with_none(tensors, present)
        rows, cells = jax_on_host.measure(given, range(len(tensors)), jnp.array(True))
        return {"rows": rows, "cells": cells}

    measured = jax.jit(measure)(*[jnp.asarray(x) for x in tensors if x is not None])
    found = jax_on_host.fetch(measured, ["rows", "cells"])()
    return found["rows" if name == "summarize" else "cells"]


def _numpy(name: str, tensors: list[Any]) -> Any:
    return _measure(in_numpy, name, [None if x is None else np.asarray(x) for x in tensors])


def _torch(name: str, tensors: list[Any]) -> Any:
    return _measure(in_torch, name, [None if x is None else as_torch(x) for x in tensors])


def _torch_plain(name: str, tensors: list[Any]) -> Any:
    """As on a device for which there is no faster way."""
    with mock.patch.object(in_torch, "_kernel", return_value=torch_plain):
        return _torch(name, tensors)


def _with_none(tensors: list[Any], present: Any) -> list[Any]:
    rest = iter(present)
    return [None if x is None else next(rest) for x in tensors]


MODES = {
    "tensorflow eager": lambda name, xs: _tensorflow(name, xs),
    "tensorflow graph": lambda name, xs: _tensorflow(name, xs, jit_compile=False),
    "tensorflow xla": lambda name, xs: _tensorflow(name, xs, jit_compile=True),
    "jax eager": lambda name, xs: _jax(name, xs, compiled=False),
    "jax jit": lambda name, xs: _jax(name, xs, compiled=True),
    "jax on host": _jax_on_host,
    "numpy": _numpy,
    "torch eager": lambda name, xs: _torch(name, xs),
    "torch plain": lambda name, xs: _torch_plain(name, xs),
}
# XLA of older versions takes denormals for 0 where tensors of half precision are counted with them.
DENORMALS_ARE_ZERO = {"tensorflow xla"} if numbers_of(tf.__version__) < (2, 21) else set()


def run(mode: str, name: str, *tensors: Any) -> np.ndarray:
    """The result of `summarize` or `count_cells` on these arrays, as a NumPy array."""
    return np.asarray(MODES[mode](name, list(tensors)))
