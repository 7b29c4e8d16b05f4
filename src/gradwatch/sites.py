"""Addresses: what is measured, and where in the model it is."""

from __future__ import annotations

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
        """The path of the layer that the variable belongs to."""
        return self.path.rpartition("/")[0] or self.path


@dataclass(frozen=True)
class SiteInfo:
    """A site together with all that a selector may ask about it."""

    site: Site
    shape: tuple[int, ...]
    dtype: str
    part: str
    """The variable's own name: `kernel`, `bias`, `gamma`, `embeddings`."""
    trainable: bool = True
    layer_indices: tuple[int, ...] = ()
    """The places in `model.layers` of the layers that hold it, counted from
    the front and, negative, from the back; a shared layer may have several."""
    owners: tuple[object, ...] = field(default=(), repr=False)
    """The layers that hold it, outermost first."""

    @property
    def kind(self) -> Kind:
        return self.site.kind

    @property
    def path(self) -> str:
        return self.site.path

    @property
    def parameters(self) -> int:
        """The number of elements."""
        return prod(self.shape)
