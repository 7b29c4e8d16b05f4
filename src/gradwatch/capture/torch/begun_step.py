"""A step of a torch optimizer that is being measured."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from gradwatch.capture.site_table import SiteTable
from gradwatch.capture.state import EVERY_KIND, HeldMoments
from gradwatch.core import Kind, Moment, Site, Tensor
from gradwatch.measure.torch_eager import EagerStep, MeasuredRow


class SkippedSteps:
    """Tells steps for which there are no gradients, as trainers make where there is no loss.

    Only if the last measured step had some, or one after it: if none has any, nothing is trained,
    and that is to be seen.
    """

    def __init__(self) -> None:
        self._were_gradients = False

    def is_one(self, gradients: Iterable[Tensor], is_measured: bool) -> bool:
        """Whether the step that has ended is one; to be asked of each step."""
        is_without = next(iter(gradients), None) is None
        is_skipped = is_without and self._were_gradients
        self._were_gradients = not is_without or (self._were_gradients and not is_measured)
        return is_skipped


@dataclass
class BegunStep:
    """A step that is due and has begun."""

    moment: Moment
    table: SiteTable
    eager: EagerStep
    before: Mapping[Site, Tensor] = field(default_factory=dict)
    """The parameters before the step, where updates are watched."""
    gradients: Mapping[Site, MeasuredRow] = field(default_factory=dict)
    """Those measured already; none with a closure, which computes them within the step."""
    deferred: Mapping[Site, Tensor] = field(default_factory=dict)
    """Gradients that are measured after the step, with what the optimizer holds."""
    applied: Mapping[int, Tensor] = field(default_factory=dict)
    """Copies of gradients that the optimizer's state is compared with, by the parameter's id."""
    held: dict[int, HeldMoments] | None = None
    """What the optimizer holds after the step, by the parameter's id; None until it is read."""
    values: dict[str, Tensor] = field(default_factory=dict)
    """The values of gradients for probes, see `capture.values`."""

    @cached_property
    def due(self) -> frozenset[Site]:
        """The sites whose summaries are due."""
        return self.table.plan.sites_due(self.moment)

    @cached_property
    def state_updates(self) -> dict[str, Site]:
        """The paths of parameters of whose state something is due, with the sites of updates."""
        return _state_updates(self.due)


@lru_cache(maxsize=16)
def _state_updates(due: frozenset[Site]) -> dict[str, Site]:
    paths = sorted({site.path for site in due if site.kind in EVERY_KIND})
    return {path: Site(Kind.UPDATE, path) for path in paths}
