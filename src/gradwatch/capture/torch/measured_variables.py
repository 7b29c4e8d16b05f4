"""Measures what an optimizer's step did to parameters on a GPU, all of it in one pass."""

from collections.abc import Collection, Mapping
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

    def kinds(self) -> set[Kind]:
        """What can be measured of it in one pass."""
        held = self.held
        found = {Kind.GRADIENT, Kind.WEIGHT, *held.kinds}
        if held.divisor is not None:
            found -= {Kind.SECOND_MOMENT}  # It is another tensor.
        return found if self.before is None else found | {Kind.UPDATE}


def measured_variables(
    variables: Mapping[str, MeasuredVariable], step: BegunStep, without: Collection[Kind] = ()
) -> dict[Site, MeasuredRow]:
    """The rows of sites of variables that one pass can measure, by their paths.

    It leaves out histograms, copies for probes, and gradients that were measured before the step.
    """
    read = {path: x.moments() for path, x in variables.items() if x.gradient is not None}
    read = {path: x for path, x in read.items() if cuda_moments.can_measure(x)}
    if not read:
        return {}
    device = next(iter(read.values())).weight.device
    read = {path: x for path, x in read.items() if x.weight.device == device}
    rows = step.eager.add_measured(cuda_moments.measure(list(read.values()), device))
    left_out = _other_sites(step)
    found = {}
    for i, path in enumerate(read):
        can = variables[path].kinds()
        for role, kind in enumerate(_KINDS):
            site = Site(kind, path)
            is_wanted = kind in can and kind not in without and site not in left_out
            if is_wanted and (kind is not Kind.GRADIENT or site in step.deferred):
                found[site] = rows[role * len(read) + i]
    return found


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
