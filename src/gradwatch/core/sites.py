"""Addresses: what is measured, and where in the model it is."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from math import prod


class Kind(StrEnum):
    """What is measured at a place."""

    WEIGHT = "weight"
    """A variable's value after the step."""
    GRADIENT = "gradient"
    """The loss's gradient as the step computed it: unscaled, before clipping."""
    APPLIED_GRADIENT = "applied_gradient"
    """The gradient that the update rule used: accumulated and clipped."""
    UPDATE = "update"
    """A variable's change in the step: its value after minus its value before."""
    LOSS = "loss"
    """A scalar that the step minimises; no tensor of the network's, and in no total."""
    OUTPUT = "output"
    """What a layer returned in the step."""
    OUTPUT_GRADIENT = "output_gradient"
    """The loss's gradient with respect to what a layer returned: unscaled."""
    DEAD_UNIT = "dead_unit"
    """For each unit of a layer 1 if all it returned in the batch was 0, else 0."""
    SATURATED = "saturated"
    """For each output of a sigmoid or tanh 1 if it is close to a bound, else 0."""
    INPUT = "input"
    """What the step was given: the batch's data; in no total."""
    TARGET = "target"
    """What the step should answer: the batch's labels; in no total."""

    SPECTRAL_NORM = "spectral_norm"
    """The largest singular value of a variable's matrix."""

    SCALAR = "scalar"
    """A number that another tool logged, taken over under its tag."""

    @property
    def is_number(self) -> bool:
        """Whether it is one number by itself, with no statistics and in no total."""
        return self in _NUMBERS

    @property
    def is_of_layer(self) -> bool:
        """Whether it is a layer's that is measured, rather than a variable's."""
        return self in _OF_LAYERS

    @property
    def is_of_variable(self) -> bool:
        """Whether it is a variable's that is measured."""
        return self in _OF_VARIABLES

    @property
    def is_of_batch(self) -> bool:
        """Whether it is what the step is given that is measured, rather than the network's."""
        return self in _OF_BATCHES


_OF_LAYERS = frozenset({Kind.OUTPUT, Kind.OUTPUT_GRADIENT, Kind.DEAD_UNIT, Kind.SATURATED})
_OF_VARIABLES = frozenset({Kind.WEIGHT, Kind.GRADIENT, Kind.APPLIED_GRADIENT, Kind.UPDATE})
_OF_BATCHES = frozenset({Kind.INPUT, Kind.TARGET})
_NUMBERS = frozenset({Kind.LOSS, Kind.SPECTRAL_NORM, Kind.SCALAR})
# The second call of a shared layer, and the first of several outputs: `net/dense@2:0`.
_CALL = re.compile(r"(@\d+)?(:\d+)?$")


@dataclass(frozen=True, order=True)
class Site:
    """The address of a series of measurements.

    >>> from gradwatch import Kind, Site
    >>> str(Site(Kind.GRADIENT, "sequential/dense/kernel"))
    'gradient sequential/dense/kernel'
    """

    kind: Kind
    path: str

    def __str__(self) -> str:
        return f"{self.kind} {self.path}"

    @property
    def layer(self) -> str:
        """The path of the layer that it belongs to."""
        if self.kind.is_of_layer:
            return _CALL.sub("", self.path, count=1)
        return self.path.rpartition("/")[0] or self.path

    @property
    def is_slice(self) -> bool:
        """Whether it is a part of another site, such as `lstm/kernel[forget]`.

        Totals leave it out, or they would count its elements twice.
        """
        return self.path.endswith("]")


@dataclass(frozen=True)
class SiteInfo:
    """A site together with all that a selector may ask about it."""

    site: Site
    shape: tuple[int, ...]
    dtype: str
    part: str
    """The variable's own name: `kernel`, `bias`, `gamma`, `embeddings`; or `output`."""
    trainable: bool = True
    layer_indices: tuple[int, ...] = ()
    """The places in `model.layers` of the layers that hold it, counted from
    the front and, negative, from the back; a shared layer may have several."""
    owners: tuple[object, ...] = field(default=(), repr=False)
    """The layers that hold it, outermost first."""
    columns: tuple[int, int] | None = None
    """Of a slice of a variable, such as an LSTM's gate: where it begins and ends
    on the variable's last axis."""

    @property
    def kind(self) -> Kind:
        return self.site.kind

    @property
    def path(self) -> str:
        return self.site.path

    @property
    def parameters(self) -> int:
        """The number of elements of a variable; 0 for all else."""
        return prod(self.shape) if self.kind.is_of_variable else 0
