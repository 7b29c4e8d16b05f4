"""Whether the classes that a model is to tell are the ids that it was given."""

from collections.abc import Sequence
from typing import Any

import torch

from gradwatch.capture.torch.loss_terms import SPARSE, LossTerm

COPIED_CLASSES = "copied_classes"
"""The share of the targets that are equal to the input in their place."""
_FEWEST = 32
"""Of fewer targets, all may be equal by chance."""


def copied_classes(term: LossTerm, target: Any, inputs: Sequence[Any]) -> Any | None:
    """The share of classes that are the ids in the same places; None if they have no such places.

    Where the module is given several tensors, what it is to tell may be in none of them alone.
    """
    if term.name != SPARSE or len(inputs) != 1 or inputs[0].is_floating_point():
        return None
    ids = inputs[0]
    if ids.numel() != target.numel() or ids.numel() < _FEWEST:
        return None
    with torch.no_grad():
        return (ids.reshape(-1) == target.reshape(-1)).float().mean()
