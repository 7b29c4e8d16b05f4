"""The submodules of a torch module, and their outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from gradwatch.capture.layer_tensors import unit_axis
from gradwatch.capture.taps import MEASURED, Passage
from gradwatch.capture.taps.calls import (
    MOST_CALLS,
    SATURATION_MARGIN,
    Call,
    Refusals,
    attention_path,
    gradient_notices,
    has_tensor,
    site_paths,
    unseen_attention,
)
from gradwatch.capture.torch.attention_scores import AttentionScores, attention_modules
from gradwatch.capture.torch.module_calls import listen
from gradwatch.capture.torch.module_paths import compiled_paths, modules_of
from gradwatch.capture.torch.output_sites import output_infos
from gradwatch.capture.variable_names import unwrapped
from gradwatch.core import Kind, Site, SiteInfo
from gradwatch.measure import framework
from gradwatch.util import Reporter
from gradwatch.watches import ATTENTION_KINDS

if TYPE_CHECKING:
    from gradwatch.capture.torch.graph_taps import GraphTaps
    from gradwatch.capture.torch.module_vitals import ModuleVitals

_BOUNDS = {
    torch.nn.Sigmoid: (0.0, 1.0),
    torch.nn.Hardsigmoid: (0.0, 1.0),
    torch.nn.Tanh: (-1.0, 1.0),
    **dict.fromkeys((torch.nn.RNN, torch.nn.GRU, torch.nn.LSTM), (-1.0, 1.0)),
}
_FUNCTIONS = {
    "sigmoid": (torch.sigmoid, (0.0, 1.0)),
    "tanh": (torch.tanh, (-1.0, 1.0)),
}
"""Functions that saturate, with their bounds."""
# Of three axes too: (batch, channels, length).
_CHANNELS_FIRST = (torch.nn.modules.conv._ConvNd, torch.nn.modules.batchnorm._NormBase)
_COMPILED = (
    "computed inside a graph of torch.compile; put gradwatch.tap(x, name) into the code of the "
    "module, or compile parts of it"
)


class _Hook:
    """A forward hook, which copies of the module and modules loaded from a file do not have."""

    def __init__(self, layers: TorchLayers, path: str) -> None:
        self._layers = layers
        self._path = path

    def __call__(self, module: Any, args: Any, outputs: Any) -> None:
        # A compiled graph contains nothing of this.
        if torch.compiler.is_compiling():
            return
        try:
            self._layers.note(self._path, outputs)
        except Exception as error:
            self._layers.reporter.internal_error(
                error, "noting the output of a module", "outputs of that step"
            )

    def __reduce__(self) -> Any:
        # A builtin that does nothing: the file can be read without gradwatch.
        return getattr, (nullcontext(), "__exit__")


class TorchLayers:
    """See `Layers`; forward hooks note the outputs, hooks of the tensors their gradients.

    `is_on`, whether to note outputs, is asked at each call of a submodule. Where the user has not
    asked for outputs, `measured` takes each of their tensors at once and returns the place of its
    row: then nothing is kept, the modules get no hooks of their own, nothing is said of what cannot
    be seen, and there are no output gradients. `activation` tells which function is applied to the
    output of a submodule, as far as that is known by then. `in_graph` measures what is computed
    inside of a compiled graph, `vitals` residual branches and logits.
    """

    def __init__(
        self,
        module: Any,
        reporter: Reporter,
        is_on: Callable[[], bool] = lambda: True,
        measured: Callable[[Any], Any] | None = None,
        activation: Callable[[str], str | None] = lambda path: None,
        in_graph: GraphTaps | None = None,
        vitals: ModuleVitals | None = None,
    ) -> None:
        self._vitals = vitals
        self._activation = activation
        self._in_graph = in_graph
        self._given = module
        self._root = unwrapped(module)
        self.reporter = reporter
        self._refusals = Refusals(reporter.notice if measured is None else lambda text: None)
        self._is_on = is_on
        self._measured = measured
        self._calls: dict[str, list[Call]] = {}
        self._copied: set[str] = set()
        self._differentiated: set[str] = set()
        self._with_graph: set[str] = set()
        self._hooks: list[Any] = []
        self._kinds: dict[str, list[Kind]] = {}
        self._known: dict[str, Any] | None = None
        self._known_infos: tuple[Any, Sequence[SiteInfo]] | None = None
        self._attention = AttentionScores(reporter, is_on)

    @property
    def are_known(self) -> bool:
        return True

    def infos(self) -> Sequence[SiteInfo]:
        """The same object as long as nothing of it has changed."""
        modules = self._modules()
        form = (
            tuple(map(id, modules.values())),  # Which stay, as owners.
            tuple([self._can_saturate(path, module) for path, module in modules.items()]),
            tuple([(w.dtype, w.requires_grad) for w in self._root.parameters()]),
        )
        if self._known_infos is None or self._known_infos[0] != form:
            attending = attention_modules(modules) if self._measured is None else set()
            found = output_infos(self._root, modules, form[1], attending, self._vitals)
            self._known_infos = form, found
        return self._known_infos[1]

    def _can_saturate(self, path: str, module: Any) -> bool:
        return type(module) in _BOUNDS or self._activation(path) in _FUNCTIONS

    @contextmanager
    def watching(self, sites: Sequence[Site] | None, with_gradients: bool) -> Iterator[None]:
        self._forget()
        modules, compiled = self._modules(), self._compiled()
        sites = [info.site for info in self.infos()] if sites is None else sites
        ends: list[Callable[[], None]] = []
        if self._vitals is not None:
            ends += self._vitals.listen([s for s in sites if self._is_vital(s)], modules)
            sites = [site for site in sites if not self._is_vital(site)]
        uncopied = (Kind.OUTPUT_GRADIENT, *ATTENTION_KINDS)
        self._copied = {site.path for site in sites if site.kind not in uncopied}
        self._differentiated = {site.path for site in sites if site.kind is Kind.OUTPUT_GRADIENT}
        chosen = [path for path in dict.fromkeys(s.path for s in sites) if path not in compiled]
        if self._measured is None:
            attending = {s.path: modules[s.path] for s in sites if s.kind in ATTENTION_KINDS}
            ends += self._attention.listen({p: m for p, m in attending.items() if p in chosen})
            hooked = [modules[path].register_forward_hook(_Hook(self, path)) for path in chosen]
            ends += [handle.remove for handle in hooked]
            if self._in_graph is not None:
                outputs = [s.path for s in sites if s.kind not in ATTENTION_KINDS]
                inside = [path for path in dict.fromkeys(outputs) if path in compiled]
                ends += self._in_graph.listen({path: modules[path] for path in inside})
        else:
            self._kinds = {path: [s.kind for s in sites if s.path == path] for path in chosen}
            listened = {path: modules[path] for path in chosen}
            ends.append(listen(listened, self._note_call, self.reporter))
        try:
            yield
        finally:
            for end in ends:
                end()

    def _is_vital(self, site: Site) -> bool:
        return self._vitals is not None and site.kind in self._vitals.kinds

    def taken(self, sites: Sequence[Site]) -> Sequence[tuple[Site, Site, Any]]:
        vital = [site for site in sites if self._is_vital(site)]
        sites = [site for site in sites if not self._is_vital(site)]
        calls = self._calls
        if self._in_graph is not None:
            calls = calls | self._in_graph.take()
        modules, compiled = self._modules(), self._compiled()
        passages = {
            path: self._passages(path, calls.get(path, []), path in compiled)
            for path in dict.fromkeys(site.path for site in sites)
        }
        self._refusals.tell()
        taken = [
            (
                site,
                Site(site.kind, attention_path(site.kind, path)),
                _taken(site.kind, modules[site.path], passage),
            )
            for site in sites
            for path, passage in passages[site.path]
            # The state of an LSTM's cells has no bounds.
            if not (site.kind is Kind.SATURATED and path.endswith(":2"))
            and has_tensor(site.kind, passage)
        ]
        unattended = unseen_attention(sites, passages)
        if unattended:
            self.reporter.notice(unattended)
        gradients = [(own, x) for _, own, x in taken if own.kind is Kind.OUTPUT_GRADIENT]
        by_path = {path: passage for pairs in passages.values() for path, passage in pairs}
        missing = {own.path: by_path[own.path] for own, x in gradients if x is None}
        often = [path for path, passage in by_path.items() if passage.arrivals > 1]
        for notice in gradient_notices(missing, often if gradients else []):
            self.reporter.notice(notice)
        self._forget()
        return taken if self._vitals is None else [*taken, *self._vitals.taken(vital)]

    def _forget(self) -> None:
        self._calls, self._with_graph = {}, set()
        self._attention.abandon()
        # Outputs may outlive the step, a parameter for example.
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def _modules(self) -> dict[str, Any]:
        if self._measured is None:
            return modules_of(self._root)
        if self._known is None:
            # What a `Sequential` returns is what its last module returns.
            found = modules_of(self._root).items()
            self._known = {p: m for p, m in found if type(m) is not torch.nn.Sequential}
        return self._known

    def _compiled(self) -> set[str]:
        return compiled_paths(self._given)

    def _note_call(self, path: str, args: Any, outputs: Any) -> None:
        self.note(path, outputs)

    def note(self, path: str, outputs: Any) -> None:
        """A submodule has returned these outputs."""
        if not self._is_on():
            return
        calls = self._calls.setdefault(path, [])
        if torch._C._current_graph_task_id() != -1:
            # Checkpointing computes it again. The gradient goes to the first time, unless
            # that was without a graph (use_reentrant=True).
            if path not in self._with_graph:
                calls[:] = [Call(1, refusal="recomputed in the backward pass (checkpointing)")]
            return
        call = Call(len(calls) + 1)
        calls.append(call)
        if call.number > MOST_CALLS:
            call.refusal = f"call {MOST_CALLS + 1} and later ones of one step"
            return
        for x in pytree.tree_leaves(outputs):
            if isinstance(x, torch.Tensor):
                self._note_tensor(path, x, call)
        if call.passages:
            call.passages[0].attention = self._attention.take(path)
        elif call.refusal is None:
            call.refusal = f"not tensors that can be tapped but a {type(outputs).__name__}"

    def _note_tensor(self, path: str, tensor: Any, call: Call) -> None:
        if tensor.layout is not torch.strided or tensor.is_complex():
            call.refusal = f"not tensors that can be tapped but {tensor.layout} of {tensor.dtype}"
        elif torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            call.refusal = "inside a transformation of torch.func"
        if call.refusal:
            return
        passage = Passage(tensor.detach())
        call.passages.append(passage)
        if self._measured is not None:
            module, kinds = self._modules()[path], self._kinds[path]
            if Kind.SATURATED not in kinds and self._can_saturate(path, module):
                kinds = [*kinds, Kind.SATURATED]
            # What follows may overwrite it, before it is measured.
            passage.output = passage.output.clone()
            for kind in kinds:
                # Beside what it computes, a module may return places and lengths.
                is_other = kind is not Kind.OUTPUT and not tensor.is_floating_point()
                function = self._activation(path)
                found = None if is_other else _tensor(kind, module, passage, function)
                passage.measured[kind] = None if found is None else self._measured(found)
            passage.output = MEASURED
            return
        if path in self._copied:
            # What follows may overwrite it, as ReLU(inplace=True) does.
            passage.output = passage.output.clone()
        if not tensor.requires_grad:
            return
        self._with_graph.add(path)
        if path in self._differentiated:
            # Only where watched: it takes memory.
            self._hooks.append(tensor.register_hook(passage.note_gradient))

    def _passages(
        self, path: str, calls: Sequence[Call], is_compiled: bool
    ) -> list[tuple[str, Passage]]:
        """The tensors that a submodule returned, by path; with a notice for those not recorded."""
        whys = [call.refusal for call in calls]
        if is_compiled and self._in_graph is not None and self._in_graph.has(path):
            whys.append(None if calls else self._in_graph.why_not(path))
        elif is_compiled:
            whys.append(_COMPILED)
        elif not calls:
            whys.append(
                "not seen: the training step does not call the module, or does so in a graph of "
                "torch.compile"
            )
        self._refusals.add(path, whys)
        return list(site_paths(path, [call for call in calls if call.refusal is None]))


def _taken(kind: Kind, module: Any, passage: Passage) -> Any:
    """The tensor of a kind that one passage yields, or the place of its row."""
    if passage.is_measured:
        return passage.measured.get(kind)
    return _tensor(kind, module, passage)


def _tensor(kind: Kind, module: Any, passage: Passage, function: str | None = None) -> Any:
    """The tensor of a kind that one passage yields; `function` is applied to what it returned."""
    x = passage.output
    if kind is Kind.OUTPUT:
        return x
    if kind is Kind.OUTPUT_GRADIENT:
        return passage.gradient
    if kind in ATTENTION_KINDS:
        return passage.attention[kind]
    if kind is Kind.DEAD_UNIT:
        own = framework("torch")
        axis = 1 if isinstance(module, _CHANNELS_FIRST) and x.ndim > 2 else unit_axis(own, x)
        return own.dead_units(x.relu() if function == "relu" else x, axis)
    wide = x.float()
    if type(module) in _BOUNDS:
        low, high = _BOUNDS[type(module)]
    else:
        apply, (low, high) = _FUNCTIONS[function or ""]
        wide = apply(wide)
    return framework("torch").outside(wide, low + SATURATION_MARGIN, high - SATURATION_MARGIN)
