"""Watches that the user has not asked for."""

from dataclasses import replace

from gradwatch.core import Kind
from gradwatch.watches.watch import Watch, losses, outputs, scalars, updates


def diagnosis_watches() -> list[Watch]:
    """Watches for the diagnosis, besides gradients and weights; each where it can be measured.

    Updates relative to weights, outputs of layers with their dead and saturated units, and
    the batch that the step is given, with the losses of its samples.
    """
    batch = [Watch(Kind.INPUT), Watch(Kind.TARGET), Watch(Kind.SAMPLE_LOSS)]
    watches = [*batch, updates(), outputs(per_unit=True)]
    return [replace(watch, optional=True) for watch in watches]


def number_watches() -> list[Watch]:
    """The numbers of a step that cost next to nothing: its loss, its learning rate."""
    return [replace(watch, optional=True) for watch in (losses(), scalars())]
