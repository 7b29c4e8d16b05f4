"""The tensors of a watched torch module, by site."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gradwatch.capture.loop.layer_watch import LayerWatch
from gradwatch.capture.loop.loop_capture import LoopCapture
from gradwatch.capture.site_table import SiteTable
from gradwatch.capture.state import EVERY_KIND, HeldMoments
from gradwatch.capture.step_tensors import ABSENT, StepTensors, under, variable_tensors
from gradwatch.capture.torch.begun_step import BegunStep
from gradwatch.capture.torch.held_parameters import HeldParameters
from gradwatch.capture.torch.measured_variables import (
    MeasuredVariable,
    MeasuredVariables,
    keeps_gradients,
)
from gradwatch.capture.torch.torch_moments import TorchState
from gradwatch.capture.torch.torch_optimizer import scale_of
from gradwatch.capture.torch.torch_parallel import Shards
from gradwatch.capture.variable_names import NamedVariable
from gradwatch.core import Kind, Site, Tensor, TorchModule, TorchOptimizer
from gradwatch.measure import framework
from gradwatch.measure.kernels import cuda_moments
from gradwatch.measure.torch_eager import MeasuredRow
from gradwatch.watches import DERIVED_KINDS

GRADIENTS = (Kind.GRADIENT, Kind.APPLIED_GRADIENT)


class ModuleTensors:
    """Parameters, gradients and updates of a module, and the tables of its sites.

    `outputs` is None if outputs are not watched, and `shards` if parameters are not sharded.
    `state` reads what the optimizer holds, if that is watched. Of an optimizer that is `followed`,
    `named`, which others use too, always has the parameters that it holds now. `is_clipped` is set
    when gradients have been clipped once: then those that the optimizer applies are others.
    """

    def __init__(
        self,
        named: list[NamedVariable],
        loop: LoopCapture,
        group: str,
        outputs: LayerWatch | None,
        state: TorchState | None,
        followed: tuple[TorchModule, TorchOptimizer] | None = None,
    ) -> None:
        self.shards: Shards | None = None
        self._state = state
        self.is_clipped = False
        self._named = named
        self._held = HeldParameters(*followed) if followed else None
        self._loop = loop
        self._group = group
        self._outputs = outputs
        self._by_path = {under(group, n.path): n.value for n in named}
        self._known: tuple[Any, StepTensors] | None = None
        self._alone: SiteTable | None = None
        """The table of variables alone."""
        self._measured = MeasuredVariables()
        self._subtables: dict[tuple[int, bool], SiteTable] = {}

    def parameter(self, site: Site) -> Tensor:
        return self._by_path[site.path]

    def gradients(self) -> Iterator[Tensor]:
        """Those of all parameters that have one."""
        return (n.value.grad for n in self._named if n.value.grad is not None)

    def tensor(self, site: Site, step: BegunStep | None = None) -> Any:
        """The tensor of a site, as far as this rank counts it.

        Without the step, there are neither updates nor what the optimizer holds.
        """
        before = {} if step is None else step.before
        if site.kind in EVERY_KIND:
            return None if step is None else self._state_tensor(site, step)
        parameter = self.parameter(site)
        whole = parameter.grad if site.kind in GRADIENTS else parameter
        if site.kind is Kind.UPDATE and site not in before:
            return None  # It is not due.
        if whole is None or (self.shards is not None and not self.shards.is_counted(whole)):
            return None
        tensor = self._local(whole)
        if site.kind is Kind.UPDATE:
            return framework("torch").difference(tensor, before[site])
        return tensor

    def _state_tensor(self, site: Site, step: BegunStep) -> Any:
        """What is measured of the optimizer's state after the step."""
        if self._state is None or site not in step.due:
            return None
        parameter, own = self.parameter(site), framework("torch")
        gradient = step.applied.get(id(parameter), parameter.grad)
        found = self._held_after(step)[id(parameter)].tensor(site.kind, gradient, own)
        # What is computed for it is measured at once, and its memory is free again.
        return step.eager.add(found, False) if site.kind in DERIVED_KINDS else found

    def gradients_before(self, step: BegunStep, scale: Tensor | None) -> dict[int, Tensor]:
        """Copies of the gradients that are needed after the step, if that may change them."""
        if self._state is None or not self._state.changes_gradients:
            return {}
        wanted = {id(parameter): parameter.grad for parameter in self._state_parameters(step)}
        copy = framework("torch").copy
        found = {key: copy(x) for key, x in wanted.items() if x is not None}
        return found if scale is None else {key: x / scale for key, x in found.items()}

    def _held_after(self, step: BegunStep) -> dict[int, HeldMoments]:
        assert self._state is not None
        if step.held is None:
            step.held = self._state.moments(self._state_parameters(step))
        return step.held

    def measured_at_once(
        self, step: BegunStep, table: SiteTable, with_weights: bool
    ) -> dict[Site, MeasuredRow]:
        """After the step: the rows of a table that one pass measures with the optimizer's state."""
        is_part = self.shards is not None or table is not step.table  # Of layers alone, perhaps.
        if self._state is None or is_part or not step.state_updates:
            return {}
        held, by_path, applied = self._held_after(step), self._by_path, step.applied
        variables = {}
        for path, update in step.state_updates.items():
            parameter = by_path[path]
            gradient = applied.get(id(parameter), parameter.grad)
            before = step.before.get(update)
            variables[path] = MeasuredVariable(parameter, gradient, before, held[id(parameter)])
        return self._measured.rows(variables, step, () if with_weights else (Kind.WEIGHT,))

    def deferrable(self, step: BegunStep, optimizer: TorchOptimizer) -> dict[Site, Tensor]:
        """The gradients that may be measured after the step, which leaves them as they are."""
        if self._state is None or self.shards is not None or self.is_clipped:
            return {}
        is_scaled = scale_of(optimizer) is not None
        if is_scaled or self._state.changes_gradients or not keeps_gradients(optimizer):
            return {}
        paths = step.state_updates
        sites = [s for s in step.due if s.kind is Kind.GRADIENT and s.path in paths]
        found = {site: self._by_path[site.path].grad for site in sites}
        return {site: x for site, x in found.items() if x is not None and cuda_moments.reads(x)}

    def _state_parameters(self, step: BegunStep) -> list[Tensor]:
        """Those of which something that the optimizer holds is due."""
        return [self._by_path[path] for path in step.state_updates]

    def values_before(self, step: BegunStep) -> dict[Site, Tensor]:
        """Copies of the parameters whose updates are due."""
        updates = [site for site in step.due if site.kind is Kind.UPDATE]
        values = [self._local(self.parameter(site)) for site in updates]
        return dict(zip(updates, step.eager.snapshots(values), strict=True))

    def _local(self, tensor: Tensor) -> Tensor:
        return tensor if self.shards is None else self.shards.local(tensor)

    def table(self, layers: StepTensors | None = None) -> SiteTable:
        """The sites that are watched, with the outputs of submodules if they are due."""
        self._follow_optimizer()
        # Parameters rarely change except in their values, and making a table is slow.
        form = (
            self.is_clipped,
            *[(n.value.requires_grad, n.value.shape, n.value.dtype) for n in self._named],
        )
        if self._known is None or self._known[0] != form:
            self._known, self._alone = (form, self._variables()), None
        variables = self._known[1]
        if self._outputs is not None:
            layers = layers or StepTensors(self._outputs.infos(self._group))
            return self._loop.table(variables + layers, self._group)
        if self._alone is None:
            self._alone = self._loop.table(variables, self._group)
        return self._alone

    def _follow_optimizer(self) -> None:
        """Take the parameters that the optimizer holds now."""
        held = [] if self._held is None else self._held.changed()
        if held:
            self._named[:] = held
            self._by_path = {under(self._group, n.path): n.value for n in held}
            self._known = None

    def _variables(self) -> StepTensors:
        learned = [None if n.value.requires_grad else ABSENT for n in self._named]
        by_kind: dict[Kind, list[Tensor]] = {
            Kind.WEIGHT: [n.value for n in self._named],
            Kind.GRADIENT: learned,
        }
        if self._has_applied_gradients:
            by_kind[Kind.APPLIED_GRADIENT] = learned
        parameters = sum(n.value.numel() for n in self._named)
        if Kind.UPDATE in self._loop.timetable.affordable(parameters).kinds:
            by_kind[Kind.UPDATE] = learned
        tensors = variable_tensors(self._named, by_kind, framework("torch").difference, self._group)
        if self._state is not None:
            tensors += self._state.tensors(self._named, self._group)
        return tensors

    @property
    def _has_applied_gradients(self) -> bool:
        watches = [w for w in self._loop.timetable.watches if w.kind is Kind.APPLIED_GRADIENT]
        # The table of shards cannot change: all ranks have agreed on it.
        is_new = self.is_clipped and self.shards is None
        return any(is_new or not watch.optional for watch in watches)

    def subtable(self, table: SiteTable, of_layers: bool) -> SiteTable:
        """The rows of layers, or all others; always the same object for the same rows."""
        key = table.number, of_layers
        if key not in self._subtables:
            rows = tuple(row for row in table.rows if row[1].kind.is_of_layer is of_layers)
            self._subtables[key] = replace(table, rows=rows)
        return self._subtables[key]
