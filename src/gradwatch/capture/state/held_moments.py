"""What an optimizer holds of one variable, and what is measured of it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from gradwatch.core import Kind, Site, SiteInfo, Tensor
from gradwatch.measure import Framework
from gradwatch.watches import DERIVED_KINDS, STATE_KINDS

EVERY_KIND = (*STATE_KINDS, *DERIVED_KINDS)


@dataclass(frozen=True)
class HeldMoments:
    """What an optimizer holds of a variable after the step.

    Update rules divide by `sqrt(v) + epsilon`, or by `sqrt(v + epsilon ** 2)`. Here v is
    `divisor / correction`, and `floor` is epsilon times the root of `correction`.
    """

    first: Tensor = None
    """An average of gradients, or a momentum; None if there is none."""
    second: Tensor = None
    """An average or a sum of squared gradients; None if there is none."""
    divisor: Tensor = None
    """What the rule takes the root of, where that is not `second` itself."""
    correction: Any = 1.0
    """What the rule divides `divisor` by, to correct its bias."""
    floor: Any = None
    """None where the rule's epsilon is not known."""
    is_descent: bool = False
    """Whether `first` points where the variable goes, and so against the gradient."""

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds that can be measured."""
        is_known = self.second is not None and self.floor is not None
        there = {
            Kind.FIRST_MOMENT: self.first is not None,
            Kind.SECOND_MOMENT: self.second is not None,
            Kind.NORMALIZED_GRADIENT: is_known,
            Kind.EPSILON_RULED: is_known,
            Kind.MOMENTUM_COSINE: self.first is not None,
        }
        return tuple(kind for kind in EVERY_KIND if there[kind])

    def tensor(self, kind: Kind, gradient: Tensor, own: Framework) -> Tensor:
        """What is measured as that kind; None if there is nothing in this step.

        `gradient` is the one that the update rule used.
        """
        if kind is Kind.FIRST_MOMENT:
            return self.first
        if kind is Kind.SECOND_MOMENT:
            return self.second
        divisor = self.second if self.divisor is None else self.divisor
        if kind is Kind.EPSILON_RULED:
            return None if divisor is None else own.below(divisor, self.floor)
        if gradient is None:
            return None
        if kind is Kind.NORMALIZED_GRADIENT:
            if divisor is None:
                return None
            return own.normalized(gradient, divisor, self.correction, self.floor)
        if self.first is None:
            return None
        cosine = own.cosine(gradient, self.first)
        return -cosine if self.is_descent else cosine


def state_infos(variable: SiteInfo, moments: HeldMoments) -> Iterator[SiteInfo]:
    """The sites of a variable's state, from the description of the variable."""
    for kind in moments.kinds:
        is_one = kind is Kind.MOMENTUM_COSINE
        yield replace(
            variable,
            site=Site(kind, variable.path),
            shape=() if is_one else variable.shape,
            dtype="float32" if kind in DERIVED_KINDS else variable.dtype,
        )
