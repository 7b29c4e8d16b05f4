"""The tensors of one training step, by site."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import NamedTuple

from gradwatch.capture.errors import WrongPlaceError
from gradwatch.capture.gates import slices_of
from gradwatch.capture.shapes import common_framework, shape_of
from gradwatch.capture.site_table import Row
from gradwatch.capture.state import HeldMoments, state_infos
from gradwatch.capture.user_taps import TapRows
from gradwatch.capture.variable_names import NamedVariable, dtype_name, is_complex, is_tensor
from gradwatch.core import Kind, Site, SiteInfo, Tensor
from gradwatch.measure import Framework
from gradwatch.util import listed


class SiteTensor(NamedTuple):
    """A tensor of a step, and the site under which it is recorded."""

    site: Site
    source: Tensor
    """The tensor, or the one from which it is computed; None if there is none in the step."""
    compute: Callable[[Tensor], Tensor] | None = None
    """Computes it from the source; called only if it is measured."""

    def tensor(self) -> Tensor:
        if self.compute is None or self.source is None:
            return self.source
        return self.compute(self.source)


@dataclass(frozen=True)
class StepTensors:
    """The tensors of a step, in network order.

    `infos` are all sites to choose from. A layer that is called twice has two tensors at its site,
    `net/a` and `net/a@2`; one that is not called has none.
    """

    infos: Sequence[SiteInfo] = ()
    tensors: Mapping[Site, Sequence[SiteTensor]] = field(default_factory=dict)
    notices: Sequence[str] = ()
    """For the user, of what was given and cannot be recorded."""
    taps: TapRows = field(default_factory=TapRows)
    """What has passed taps, which is measured already."""

    def __add__(self, other: StepTensors) -> StepTensors:
        return replace(
            self,
            infos=[*self.infos, *other.infos],
            tensors={**self.tensors, **other.tensors},
            notices=[*self.notices, *other.notices],
        )

    @cached_property
    def framework(self) -> Framework:
        return common_framework(self.sources)

    @property
    def sources(self) -> list[Tensor]:
        """All tensors that exist in the step."""
        own = [each.source for several in self.tensors.values() for each in several]
        return [*own, *self.taps.arrays]

    @property
    def is_traced(self) -> bool:
        """Whether they stand for values in a function that is being compiled."""
        own = self.framework
        return any(own.is_traced(x) for x in self.sources if x is not None)

    def of_kind(self, kind: Kind) -> StepTensors:
        return replace(
            self,
            infos=[info for info in self.infos if info.kind is kind],
            tensors={site: each for site, each in self.tensors.items() if site.kind is kind},
        )

    def without(self, sites: Collection[Site]) -> StepTensors:
        return replace(
            self,
            infos=[info for info in self.infos if info.site not in sites],
            tensors={site: each for site, each in self.tensors.items() if site not in sites},
        )

    def found(self, sites: Sequence[Site]) -> Iterator[tuple[int, SiteTensor]]:
        """The tensors at the sites, each with the position of its site."""
        for position, site in enumerate(sites):
            for each in self.tensors.get(site, ()):
                yield position, each

    def rows(self, sites: Sequence[Site]) -> list[Row]:
        return [Row(i, each.site, each.tensor()) for i, each in self.found(sites)]

    def require_eager(self, caller: str) -> None:
        """Refuse tensors of a function that is being compiled."""
        if self.is_traced:
            raise WrongPlaceError(
                f"{caller} was called inside a compiled function (tf.function, jax.jit, ...), "
                "where there are no values yet. There, call readings = monitor.measure("
                "gradients=..., parameters=...), return the readings, and outside call "
                "monitor.record(readings)."
            )


ABSENT = object()
"""In the place of a tensor that was not given at all, and has no site."""

_ORDER = (Kind.WEIGHT, Kind.GRADIENT, Kind.APPLIED_GRADIENT, Kind.UPDATE)


def variable_tensors(
    named: Sequence[NamedVariable],
    by_kind: Mapping[Kind, Sequence[Tensor]],
    difference: Callable[[Tensor, Tensor], Tensor],
    prefix: str,
) -> StepTensors:
    """The tensors of variables.

    `by_kind` has for each kind a tensor, None or `ABSENT` for each variable; for updates, the value
    before the step. A notice names those of complex numbers, which cannot be measured.
    """
    tensors: dict[Site, Sequence[SiteTensor]] = {}
    infos: list[SiteInfo] = []
    complex_paths = [n.path for n in named if is_complex(n.value)]
    for i, variable in enumerate(named):
        if not is_tensor(variable.value):
            continue
        for kind in (k for k in _ORDER if k in by_kind and by_kind[k][i] is not ABSENT):
            info = _info(Site(kind, under(prefix, variable.path)), variable)
            compute = partial(difference, variable.value) if kind is Kind.UPDATE else None
            for each in (info, *slices_of(info)):
                infos.append(each)
                own = compute if each.columns is None else partial(_columns, each.columns, compute)
                tensors[each.site] = [SiteTensor(each.site, by_kind[kind][i], own)]
    return StepTensors(infos, tensors, complex_notices(complex_paths))


def complex_notices(paths: Sequence[str]) -> list[str]:
    """What is said of variables of complex numbers."""
    if not paths:
        return []
    return [
        f"Not recorded, as the numbers are complex: {listed(paths)}. To record one, give its real "
        "and imaginary part to record(gradients=..., variables=...) as variables of their own."
    ]


def state_tensors(
    held: Sequence[tuple[NamedVariable, HeldMoments, Tensor]], own: Framework | None, prefix: str
) -> StepTensors:
    """What is measured of an optimizer's state: of variables, their moments and gradients.

    Without a framework, nothing can be computed: the sites alone are wanted.
    """
    tensors: dict[Site, Sequence[SiteTensor]] = {}
    infos: list[SiteInfo] = []
    for variable, moments, gradient in held:
        whole = _info(Site(Kind.WEIGHT, under(prefix, variable.path)), variable)
        for info in state_infos(whole, moments):
            source = moments.first if moments.second is None else moments.second
            compute = None if own is None else partial(_measured, moments, info.kind, gradient, own)
            infos.append(info)
            tensors[info.site] = [SiteTensor(info.site, source, compute)]
    return StepTensors(infos, tensors)


def _measured(
    moments: HeldMoments, kind: Kind, gradient: Tensor, own: Framework, source: Tensor
) -> Tensor:
    return moments.tensor(kind, gradient, own)


def under(prefix: str, path: str) -> str:
    return f"{prefix}/{path}" if prefix else path


def _columns(
    columns: tuple[int, int], compute: Callable[[Tensor], Tensor] | None, source: Tensor
) -> Tensor:
    whole = source if compute is None else compute(source)
    return whole[..., columns[0] : columns[1]]


def _info(site: Site, variable: NamedVariable) -> SiteInfo:
    return SiteInfo(
        site=site,
        shape=shape_of(variable.value),
        dtype=dtype_name(variable.value),
        part=variable.path.rpartition("/")[2],
        trainable=variable.trainable,
        layer_indices=variable.layer_indices,
        owners=variable.owners,
    )
