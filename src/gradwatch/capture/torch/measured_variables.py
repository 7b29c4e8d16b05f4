"""Measures what an optimizer's step did to parameters on a GPU, all of it in one pass."""

from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from gradwatch.capture.state import HeldMoments
from gradwatch.capture.torch.begun_step import BegunStep
from gradwatch.core import Kind, Site, Tensor, TorchOptimizer
from gradwatch.measure.kernels import cuda_moments
from gradwatch.measure.torch_eager import MeasuredRow

# torch.optim hides it.
_of_all = import_module("torch.optim.optimizer")

_KINDS = (
    Kind.GRADIENT,
    Kind.FIRST_MOMENT,
    Kind.SECOND_MOMENT,
    Kind.NORMALIZED_GRADIENT,
    Kind.EPSILON_RULED,
    Kind.WEIGHT,
    Kind.UPDATE,
    Kind.MOMENTUM_COSINE,
)
"""In the order of the rows of `cuda_moments`."""


class MeasuredVariable(NamedTuple):
    """A parameter after the step, the gradient that the update rule used, and the value before."""

    parameter: Tensor
    gradient: Tensor
    before: Tensor
    held: HeldMoments

    def moments(self) -> cuda_moments.StepMoments:
        held = self.held
        return cuda_moments.StepMoments(
            self.gradient,
            self.parameter,
            self.before,
            held.first,
            held.second if held.divisor is None else held.divisor,
            held.correction,
            held.floor,
            held.is_descent,
        )

    def measured(self, is_deferred: bool) -> tuple[bool, ...]:
        """For each kind, whether one pass measures it."""
        held = self.held
        has_first, has_second = held.first is not None, held.second is not None
        has_floor = has_second and held.floor is not None
        return (
            is_deferred,
            has_first,
            has_second and held.divisor is None,  # Else that is another tensor.
            has_floor,
            has_floor,
            True,
            self.before is not None,
            has_first,
        )


class MeasuredVariables:
    """Measures variables whose state is due; keeps what is the same at every step."""

    def __init__(self) -> None:
        self._known: tuple[Any, dict[str, list[Site | None]]] = None, {}

    def rows(
        self,
        variables: Mapping[str, MeasuredVariable],
        step: BegunStep,
        without: Collection[Kind] = (),
    ) -> dict[Site, MeasuredRow]:
        """The rows of sites of variables that one pass can measure, by their paths.

        It leaves out histograms, copies for probes, and gradients that were measured before.
        """
        read = {path: x.moments() for path, x in variables.items() if x.gradient is not None}
        read = {path: x for path, x in read.items() if cuda_moments.can_measure(x)}
        if not read:
            return {}
        device = next(iter(read.values())).weight.device
        if any(x.weight.device != device for x in read.values()):
            read = {path: x for path, x in read.items() if x.weight.device == device}
        rows = step.eager.add_measured(cuda_moments.measure(list(read.values()), device))
        sites = self._sites(list(variables), step, without)
        found, count = {}, len(read)
        for i, path in enumerate(read):
            own = sites[path]
            is_measured = variables[path].measured(own[0] in step.deferred)
            for role, site in enumerate(own):
                if site is not None and is_measured[role]:
                    found[site] = rows[role * count + i]
        return found

    def _sites(
        self, paths: Sequence[str], step: BegunStep, without: Collection[Kind]
    ) -> dict[str, list[Site | None]]:
        """By path, for each kind the site whose summary is wanted, the same object at each step."""
        due = step.table.plan.due(step.moment)
        key = (step.table.number, id(due), step.eager.counts, tuple(without), tuple(paths))
        if self._known[0] != key:
            left_out = _other_sites(step)
            of_table = {site: site for _, site in step.table.rows if site in step.due}
            wanted = {site: x for site, x in of_table.items() if site not in left_out}
            kinds = [None if kind in without else kind for kind in _KINDS]
            self._known = (
                key,
                {
                    path: [None if k is None else wanted.get(Site(k, path)) for k in kinds]
                    for path in paths
                },
            )
        return self._known[1]


def _other_sites(step: BegunStep) -> set[Site]:
    """Those of which more than summaries are due."""
    plan = step.table.plan
    positions = {position for _, position in plan.due(step.moment).probes}
    if step.eager.counts:
        positions |= plan.with_histogram
    return {plan.sites[position] for position in positions}


def keeps_gradients(optimizer: TorchOptimizer) -> bool:
    """Whether a step leaves gradients as they are: one of torch's own, without others' hooks."""
    if not f"{type(optimizer).__module__}.".startswith("torch.optim."):
        return False
    hooks = [
        *_hooks(optimizer, "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"),
        *_hooks(_of_all, "_global_optimizer_pre_hooks", "_global_optimizer_post_hooks"),
    ]
    return all(str(getattr(hook, "__module__", "")).startswith("gradwatch.") for hook in hooks)


def _hooks(holder: Any, *names: str) -> list[Any]:
    """What is not where torch keeps it now counts as another's hook."""
    return [hook for name in names for hook in getattr(holder, name, {"": None}).values()]
