"""Whether the classes that a model is to tell are the ids that it was given."""

from collections.abc import Sequence
from typing import Any

import torch

from gradwatch.capture.torch.loss_terms import SPARSE, LossTerm, ignored_class
from gradwatch.capture.variation_names import COPIED_CLASSES

_FEWEST = 32
"""Of fewer targets, all may be equal by chance."""


def copied_classes(term: LossTerm, inputs: Sequence[Any]) -> dict[str, Any]:
    """The share of classes that are the ids in the same places of an input, if any has such.

    Classes that the loss ignores are left out.
    """
    target = getattr(term.chosen, "_saved_target", None)
    if term.name != SPARSE or target is None or target.numel() < _FEWEST:
        return {}
    found = [
        _share(x, target, ignored_class(term.chosen))
        for x in inputs
        if not x.is_floating_point() and x.numel() == target.numel()
    ]
    return {COPIED_CLASSES: torch.stack(found).max()} if found else {}


def _share(ids: Any, target: Any, ignored: int) -> Any:
    with torch.no_grad():
        ids, target = ids.reshape(-1), target.reshape(-1)
        counts = target != ignored
        return ((ids == target) & counts).sum() / counts.sum().clamp_min(1)
