"""The order in which a step computes its tensors."""

from __future__ import annotations

from gradwatch.core import Kind, Site
from gradwatch.diagnosis.anatomy import Order

PHASES = {
    Kind.INPUT: 0,
    Kind.OUTPUT: 1,
    Kind.TARGET: 2,
    Kind.LOSS: 3,
    Kind.OUTPUT_GRADIENT: 4,
    Kind.GRADIENT: 4,
    Kind.APPLIED_GRADIENT: 5,
    Kind.UPDATE: 6,
    Kind.WEIGHT: 7,
}
"""The phase of a step in which a kind is computed."""
BACKWARD = (Kind.OUTPUT_GRADIENT, Kind.GRADIENT, Kind.APPLIED_GRADIENT)


def moment_of(site: Site, order: Order) -> tuple[int, int, int]:
    """When in the step it is computed; smaller is earlier.

    Within the backward pass, layers come in reverse.

    Example:

    >>> from gradwatch import Kind, Site
    >>> from gradwatch.diagnosis.anatomy import Order
    >>> from gradwatch.diagnosis.execution import moment_of
    >>> order = Order([], ["a", "b"])
    >>> sites = [Site(kind, path) for kind in (Kind.OUTPUT_GRADIENT, Kind.OUTPUT) for path in "ab"]
    >>> [str(site) for site in sorted(sites, key=lambda site: moment_of(site, order))]
    ['output a', 'output b', 'output_gradient b', 'output_gradient a']
    """
    rank = order.rank(site.layer)
    if site.kind in (Kind.OUTPUT_GRADIENT, Kind.GRADIENT):
        # The gradient with respect to a layer's output comes before those of its variables.
        return PHASES[site.kind], -rank, int(site.kind is Kind.GRADIENT)
    return PHASES[site.kind], rank, 0
