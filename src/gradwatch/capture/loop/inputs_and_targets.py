"""What a step of a loop is given: its inputs and its targets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradwatch.capture.errors import WrongTypeError
from gradwatch.capture.loop.trees import leaves
from gradwatch.capture.loop.variable_names import dtype_name
from gradwatch.core import Kind, Site, SiteInfo
from gradwatch.measure import Framework

_ROOTS = {Kind.INPUT: "input", Kind.TARGET: "target"}


def batch_tensors(inputs: Any, targets: Any, prefix: str) -> dict[Site, Any]:
    """The tensors of a batch by their sites: `input`, `input/mask`, `target/0`.

    Raises:
        TypeError: one of them is no tensor.

    Example:

    >>> import numpy as np
    >>> from gradwatch.capture.loop.inputs_and_targets import batch_tensors
    >>> batch = batch_tensors({"image": np.ones((2, 3))}, np.array([0, 1]), "")
    >>> [str(site) for site in batch]
    ['input input/image', 'target target']
    """
    found = {}
    for kind, tree in ((Kind.INPUT, inputs), (Kind.TARGET, targets)):
        for leaf in leaves(tree):
            if leaf.value is None:
                continue
            if not hasattr(leaf.value, "shape") or not hasattr(leaf.value, "dtype"):
                raise WrongTypeError(
                    f"{_ROOTS[kind]}s= is a tensor, or a tree of tensors. "
                    f"Received: {type(leaf.value).__name__}"
                )
            path = "/".join([*([prefix] if prefix else []), _ROOTS[kind], *leaf.keys])
            found[Site(kind, path)] = leaf.value
    return found


def batch_infos(batch: Mapping[Site, Any]) -> list[SiteInfo]:
    """What is known of them; not their shape, which is the batch's."""
    return [
        SiteInfo(site, (), dtype_name(tensor), _ROOTS[site.kind], trainable=False)
        for site, tensor in batch.items()
    ]


def as_floats(tensor: Any, own: Framework) -> Any:
    """The tensor, in floats if it is of whole numbers."""
    return tensor if "float" in dtype_name(tensor) else own.copy(tensor)
