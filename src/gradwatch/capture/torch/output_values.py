"""What is measured of an output of a torch module, by kind."""

from typing import Any

import torch

from gradwatch.capture.layer_tensors import unit_axis
from gradwatch.capture.taps import Passage
from gradwatch.capture.taps.calls import SATURATION_MARGIN
from gradwatch.core import Kind
from gradwatch.measure import framework
from gradwatch.watches import ATTENTION_KINDS

_BOUNDS = {
    torch.nn.Sigmoid: (0.0, 1.0),
    torch.nn.Hardsigmoid: (0.0, 1.0),
    torch.nn.Tanh: (-1.0, 1.0),
    **dict.fromkeys((torch.nn.RNN, torch.nn.GRU, torch.nn.LSTM), (-1.0, 1.0)),
}
_FUNCTIONS = {
    "sigmoid": (torch.sigmoid, (0.0, 1.0)),
    "tanh": (torch.tanh, (-1.0, 1.0)),
}
"""Functions that saturate, with their bounds."""
# Of three axes too: (batch, channels, length).
_CHANNELS_FIRST = (torch.nn.modules.conv._ConvNd, torch.nn.modules.batchnorm._NormBase)


def can_saturate(module: Any, function: str | None) -> bool:
    """Whether outputs of a module are bounded, or those of the function applied to them."""
    return type(module) in _BOUNDS or function in _FUNCTIONS


def kept_value(kind: Kind, module: Any, passage: Passage) -> Any:
    """The tensor of a kind that one passage yields, or the place of its row."""
    if passage.is_measured:
        return passage.measured.get(kind)
    return output_value(kind, module, passage)


def output_value(kind: Kind, module: Any, passage: Passage, function: str | None = None) -> Any:
    """The tensor of a kind that one passage yields; `function` is applied to what it returned."""
    x = passage.output
    if kind is Kind.OUTPUT:
        return x
    if kind is Kind.OUTPUT_GRADIENT:
        return passage.gradient
    if kind in ATTENTION_KINDS:
        return passage.attention[kind]
    if kind is Kind.DEAD_UNIT:
        own = framework("torch")
        axis = 1 if isinstance(module, _CHANNELS_FIRST) and x.ndim > 2 else unit_axis(own, x)
        return own.dead_units(x.relu() if function == "relu" else x, axis)
    wide = x.float()
    if type(module) in _BOUNDS:
        low, high = _BOUNDS[type(module)]
    else:
        apply, (low, high) = _FUNCTIONS[function or ""]
        wide = apply(wide)
    return ((wide <= low + SATURATION_MARGIN) | (wide >= high - SATURATION_MARGIN)).float()
