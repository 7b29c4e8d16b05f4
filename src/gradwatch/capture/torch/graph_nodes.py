"""The nodes of torch's autograd graph, by what they compute.

Of a node only what is no saved tensor is read here: reading one of those may compute it again, for
example under checkpointing.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

ACTIVATIONS = {
    "Relu": "relu", "LeakyRelu": "leaky_relu", "Elu": "elu", "Gelu": "gelu", "Silu": "silu",
    "Mish": "mish", "Sigmoid": "sigmoid", "Tanh": "tanh", "Softmax": "softmax",
    "LogSoftmax": "log_softmax", "Softplus": "softplus", "Hardtanh": "hard_tanh",
    "Hardsigmoid": "hard_sigmoid", "Hardswish": "hard_swish", "Exp": "exponential",
    "LogSigmoid": "log_sigmoid",
}  # fmt: skip
"""The activations by their operation."""

ARRANGING = frozenset({
    "View", "UnsafeView", "Reshape", "ReshapeAlias", "Squeeze", "Unsqueeze", "Transpose",
    "Permute", "T", "Expand", "Alias", "Clone", "ToCopy", "Slice", "Select", "Cat", "Stack",
    "Flatten", "Unflatten", "Detach", "Contiguous", "Index", "IndexSelect", "Unbind", "Split",
    "SplitWithSizes", "Narrow", "Movedim", "Repeat", "Flip", "Roll", "ConstantPadNd", "Identity",
    "AsStrided",
})  # fmt: skip
"""Operations that do not change values, at most their arrangement."""

_LINEAR = ARRANGING | frozenset({
    "Addmm", "Mm", "Mv", "Addmv", "Dot", "Linear", "Convolution", "ConvolutionOverrideable",
    "MkldnnConvolution", "Mean", "Sum", "Neg", "AvgPool1D", "AvgPool2D", "AvgPool3D",
    "AdaptiveAvgPool2D", "AdaptiveAvgPool1D", "NativeDropout", "NativeBatchNorm",
    "CudnnBatchNorm", "Embedding", "AccumulateGrad", "Baddbmm",
})  # fmt: skip
_SCALING = frozenset({"Mul", "Div", "Bmm", "Matmul"})
_SUMS = frozenset({"Add", "Sub", "Rsub"})
_NUMBER = re.compile(r"Backward\d*$")


def operation(node: Any) -> str:
    """What a node computes in the forward pass: `Addmm`, `Relu`, `AccumulateGrad`."""
    return _NUMBER.sub("", str(node.name()).rpartition("::")[2])


def sources(node: Any) -> list[Any]:
    """The nodes that compute what a node needs; without what needs no gradient."""
    return [child for child, _ in node.next_functions if child is not None]


def result_shape(node: Any) -> tuple[int, ...] | None:
    """The shape of what a node returns; None if it returns several tensors."""
    several: Any = getattr(node, "_input_metadata", ())
    return tuple(map(int, several[0].shape)) if len(several) == 1 else None


def arranged(node: Any) -> Any:
    """The node whose values this one only arranges."""
    while operation(node) in ARRANGING and len(sources(node)) == 1:
        node = sources(node)[0]
    return node


def is_linear(node: Any) -> bool:
    """Whether a node computes a linear function of all that depends on parameters or inputs."""
    name, inputs = operation(node), sources(node)
    if name in _LINEAR or name in _SUMS:
        return True
    # A product is linear if only one of its factors varies: constants and parameters do not.
    return name in _SCALING and sum(not _is_parameter(each) for each in inputs) <= 1


def _is_parameter(node: Any) -> bool:
    return operation(arranged(node)) == "AccumulateGrad"


def uses_parameters(node: Any) -> bool:
    """Whether a node computes something of parameters, directly."""
    return any(map(_is_parameter, sources(node)))


def ancestors(node: Any, limit: int, without: Sequence[Any] = ()) -> Iterator[Any]:
    """A node and all that it is computed from, each once; at most `limit`.

    Those that only nodes in `without` are computed from are left out.
    """
    seen, stack = {node, *without}, [node]
    while stack and len(seen) <= limit:
        each = stack.pop()
        yield each
        for child in sources(each):
            if child not in seen:
                seen.add(child)
                stack.append(child)


def form(root: Any) -> tuple[str, ...]:
    """What the last operations of a loss are: that of another loss is mostly another."""
    return tuple(str(node.name()) for node in ancestors(root, 8))


def nodes_of(tensors: Any) -> Iterator[Any]:
    """The nodes that compute what is differentiated."""
    for tensor in tensors if isinstance(tensors, list | tuple) else [tensors]:
        node = getattr(tensor, "grad_fn", None)
        if node is not None:
            yield node


def unexpanded(tensor: Any) -> Any:
    """The tensor before it was broadcast."""
    for axis, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if size > 1 and stride == 0:
            tensor = tensor.narrow(axis, 0, 1)
    return tensor


def swapped_axes(node: Any) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The shapes before and after a view that a transposition was meant to be.

    Both have the same sizes in another order. Looked for among the operations that only arrange
    what a node returns, up to one that computes.
    """
    while operation(node) in ARRANGING and len(sources(node)) == 1:
        before, after = getattr(node, "_saved_self_sym_sizes", None), result_shape(node)
        if before is not None and after is not None:
            old, new = ([int(n) for n in shape if int(n) != 1] for shape in (before, after))
            if old != new and sorted(old) == sorted(new):
                return tuple(map(int, before)), after
        node = sources(node)[0]
    return None
