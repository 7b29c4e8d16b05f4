"""Names for values whose classes belong to frameworks, which may not be installed."""

from typing import Any, TypeAlias

Tensor: TypeAlias = Any
"""A tensor, array or variable of TensorFlow, JAX, torch or NumPy."""

Tree: TypeAlias = Any
"""A tensor, or nested dicts, lists and tuples of tensors; a model's parameters."""

KerasModel: TypeAlias = Any
KerasLayer: TypeAlias = Any
KerasOptimizer: TypeAlias = Any
TorchModule: TypeAlias = Any
TorchOptimizer: TypeAlias = Any
