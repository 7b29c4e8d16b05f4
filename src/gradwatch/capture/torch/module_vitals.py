"""The residual branches and the logits of a torch module, in the steps that are due."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from gradwatch.capture.torch.module_paths import compiled_paths
from gradwatch.capture.torch.output_logits import ROOT, OutputLogits
from gradwatch.capture.torch.residual_sums import ResidualSums
from gradwatch.capture.variable_names import unwrapped
from gradwatch.core import Kind, Site
from gradwatch.util import Reporter

_COMPILED = (
    "Residual branches are not seen in modules that torch.compile compiles. Put "
    "gradwatch.residual(stream, branch, name) into their code. See docs/attention.md."
)
_NO_BRANCH = (
    "No residual branch was seen: no tensor was added to what was computed from it with weights. "
    "Put gradwatch.residual(stream, branch, name) into the code. See docs/attention.md."
)
_NO_LOGITS = (
    "No logits were seen: the loss takes no softmax or sigmoid of what a module has returned. Put "
    "gradwatch.tap(x, name) into the code. See docs/attention.md."
)


class ModuleVitals:
    """Notes what was asked for by its own watch; `kinds` are those of all watches.

    `is_on` says whether the step is measured, `measure` measures a tensor at once.
    """

    def __init__(
        self,
        module: Any,
        kinds: Collection[Kind],
        reporter: Reporter,
        is_on: Callable[[], bool],
        measure: Callable[[Any], Any],
    ) -> None:
        self._module, self._reporter = module, reporter
        self.kinds = [kind for kind in (Kind.RESIDUAL_RATIO, Kind.LOGIT) if kind in kinds]
        self._sums = ResidualSums(reporter, is_on)
        self._logits = OutputLogits(reporter, is_on, measure)

    def own_sites(self, modules: Collection[str]) -> Iterator[Site]:
        """The sites that are of no submodule."""
        if Kind.LOGIT in self.kinds and ROOT not in modules:
            yield Site(Kind.LOGIT, ROOT)

    def listen(self, sites: Sequence[Site], modules: Mapping[str, Any]) -> list[Callable[[], None]]:
        """Begin; the functions that this returns end it."""
        ends: list[Callable[[], None]] = []
        kinds = {site.kind for site in sites}
        compiled = compiled_paths(self._module)
        if Kind.RESIDUAL_RATIO in kinds and compiled:
            self._reporter.notice(_COMPILED)
        elif Kind.RESIDUAL_RATIO in kinds:
            ends += self._sums.listen(unwrapped(self._module), modules)
        if Kind.LOGIT in kinds:
            eager = {path: m for path, m in modules.items() if path not in compiled}
            ends += self._logits.listen(self._module, eager)
        return ends

    def taken(self, sites: Sequence[Site]) -> Iterator[tuple[Site, Site, Any]]:
        """The tensors since the last time: a site, the site of the record, the tensor."""
        found = {Kind.RESIDUAL_RATIO: self._sums.take(), Kind.LOGIT: self._logits.take()}
        kinds = {site.kind for site in sites}
        if Kind.RESIDUAL_RATIO in kinds and not found[Kind.RESIDUAL_RATIO]:
            self._reporter.notice(_COMPILED if compiled_paths(self._module) else _NO_BRANCH)
        if Kind.LOGIT in kinds and not found[Kind.LOGIT]:
            self._reporter.notice(_NO_LOGITS)
        for site in sites:
            for number, tensor in enumerate(found[site.kind].get(site.path, ()), 1):
                path = site.path if number == 1 else f"{site.path}@{number}"
                yield site, Site(site.kind, path), tensor
