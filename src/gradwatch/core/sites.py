"""Addresses of measurements: a kind, and a path in the model."""

import re
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

from gradwatch.core.kinds import Kind

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

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Kept: a measured step looks up hundreds of sites.
        return hash((self.kind, self.path))

    def __reduce__(self) -> tuple[Any, ...]:
        # Without what is kept: hashes of strings differ from process to process.
        return type(self), (self.kind, self.path)

    @cached_property
    def layer(self) -> str:
        """The path of the layer that it belongs to."""
        if self.kind.is_of_layer:
            return _CALL.sub("", self.path, count=1)
        return self.path.rpartition("/")[0] or self.path

    @property
    def is_slice(self) -> bool:
        """Whether it is a part of another site, such as `lstm/kernel[forget]`.

        Totals leave it out: they would count its elements twice.
        """
        return self.path.endswith("]")


@dataclass(frozen=True)
class SiteInfo:
    """A site with all that selectors use."""

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
    """For a slice of a variable, such as an LSTM's gate: its first column and the one after
    its last, on the variable's last axis."""

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
