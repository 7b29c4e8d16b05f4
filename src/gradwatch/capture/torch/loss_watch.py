"""Sees what surrounds a torch module in a training step: its batch, its output, its loss."""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from gradwatch.capture.batch import batch_site
from gradwatch.capture.loop.loop_capture import LoopCapture
from gradwatch.capture.step_tensors import under
from gradwatch.capture.torch import backward_tap, module_calls
from gradwatch.capture.torch.attention import ATTENTION_PEAK, EarlyAttention
from gradwatch.capture.torch.called_modules import CalledModules
from gradwatch.capture.torch.copied_classes import copied_classes
from gradwatch.capture.torch.graph_nodes import form, nodes_of
from gradwatch.capture.torch.loss_graph import read_loss
from gradwatch.capture.torch.loss_parts import numbers_of_outputs, output_names
from gradwatch.capture.torch.loss_terms import SPARSE, LossTerm
from gradwatch.capture.torch.part_calls import PartCalls, one_tensor, tensors_in
from gradwatch.capture.torch.term_value import is_one_of, rest_of_classes, target_of, term_numbers
from gradwatch.capture.torch.torch_facts import (
    facts_of,
    functional_activations,
    parameters_of,
    with_graph,
    with_others,
)
from gradwatch.capture.torch.torch_optimizer import learning_rates
from gradwatch.capture.torch.untrained import (
    OwnLosses,
    UntrainedParameters,
    own_parameters,
)
from gradwatch.capture.torch.variation import variation
from gradwatch.capture.variation_names import INPUT_VARIATION, OUTPUT_VARIATION, TARGET_VARIATION
from gradwatch.core import (
    UNTRAINED,
    Kind,
    LossFacts,
    ModelFacts,
    Moment,
    Site,
    Summary,
    TorchModule,
    TorchOptimizer,
)
from gradwatch.measure import Fetched, framework

CALLS = "module_calls"
"""How often the module was called before a backward pass: twice, if it compares two views."""
_MOST_ELEMENTS = 1 << 23
"""Larger tensors are not kept for measuring: memory that a backward pass would free."""


class LossWatch:
    """Notes the batch, the output and the loss of the steps that are due, and the facts once.

    The call of the module gives its inputs and its output, at steps that are due. The graph of the
    loss, read before the first backward pass, tells what kind of loss it is and which layers it
    comes from; at later steps that are due, it gives the targets. `is_due` is asked about the step
    that comes next.
    """

    def __init__(
        self,
        module: TorchModule,
        optimizer: TorchOptimizer,
        loop: LoopCapture,
        group: str,
        is_due: Callable[[], bool],
    ) -> None:
        self._module = module
        self._optimizer = optimizer
        self._loop = loop
        self._group = group
        # Not where the user has asked for something else.
        is_diagnosed = any(w.optional and w.kind is Kind.OUTPUT for w in loop.timetable.watches)
        self._is_due = is_due if is_diagnosed else lambda: False
        self._is_diagnosed = is_diagnosed
        self._facts: ModelFacts | None = None
        self._activations: Mapping[str, str] = {}
        self._batch_size: int | None = None
        self._calls = self._most_calls = 0
        self._output: Any = None
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._is_called = False
        """Whether the layer that computes the output is a module that is called as such."""
        self._noted: dict[Site, Any] = {}
        loop.at_end.append(backward_tap.listen(self._backward_begins))
        self._untrained = UntrainedParameters(module, optimizer)
        self._own_losses = OwnLosses(optimizer)
        self._called_modules = CalledModules(module, loop.reporter) if is_diagnosed else None
        self._parts: PartCalls | None = PartCalls(module)
        """Until the module itself is called."""
        self._attention: EarlyAttention | None = None
        if self._called_modules is not None:
            self._attention = EarlyAttention(module, self._called_modules)
            loop.at_end.append(self._called_modules.end)
        self._names: list[str] = []
        """Of the outputs, if the loss has several terms."""
        self._forms: set[tuple[str, ...]] = set()
        """Those of the losses so far; none, if they differ in what they are."""
        self._is_expected = False
        self._stop_listening = _do_nothing
        loop.at_end.append(lambda: self._stop_listening())
        self.expect_step()

    def step_ended(self, moment: Moment | None) -> None:
        """A step has ended, and another one begins."""
        self._own_losses.step_ended(self._facts is not None)
        if moment is not None and self._untrained.step_ended():
            found, known = self._untrained, self.facts()
            found_of: dict[str, Any] = {
                name: [under(self._group, path) for path in getattr(found, name)]
                for name in ("unheld", "unregistered", "fresh", "alike")
            }
            self._facts = replace(known, parameters=replace(known.parameters, **found_of))
            self._loop.known.changed()
            numbers = {Site(Kind.SCALAR, under(self._group, UNTRAINED)): float(found.elements or 0)}
            self._loop.send_sites(moment, self._group, [], dict, numbers)
        self.expect_step()

    def expect_step(self) -> None:
        """Another step begins; its forward pass is looked at only if it is due."""
        self._stop_listening()
        self._stop_listening = _do_nothing
        if self._is_expected and self._parts is not None:
            self._parts.forget()
        # Asked once per step: it takes longer than the rest of this.
        self._is_expected = self._is_due()
        if self._is_expected:
            parts = {} if self._parts is None else self._parts.modules
            self._stop_listening = module_calls.listen(
                {**parts, "": self._module}, self._forward_ended, self._loop.reporter
            )

    def facts(self) -> ModelFacts:
        """The facts that are known by now."""
        return self._facts or facts_of(self._module, self._optimizer, self._group)

    def activation_of(self, path: str) -> str | None:
        """The function that is applied to the output of a submodule, if that is known by now."""
        return self._activations.get(under(self._group, path))

    def measured(self, known: Container[Site]) -> Callable[[], Mapping[Site, Any]]:
        """A function that waits for the packed summaries of the step that has ended, except those
        at sites that are known already."""
        if not self._is_diagnosed:
            return dict
        path = next(iter(self.facts().outputs), None)
        site = None if path is None else Site(Kind.OUTPUT, path)
        # One that is called now and then is not what another one returns in its place.
        self._is_called |= site in known
        if site is not None and self._output is not None and not self._is_called:
            self._note(site, self._output)
        noted, self._noted, self._output = self._noted, {}, None
        self._inputs, self._outputs = [], []
        progress = self._loop.progress(self._group)
        if progress.gives_batch:
            noted = {site: x for site, x in noted.items() if not site.kind.is_of_batch}
        progress.noted_batch = {site for site in noted if site.kind.is_of_batch}
        own = framework("torch")
        wait: Fetched = dict
        if noted:
            tensors = [x if x.is_floating_point() else x.float() for x in noted.values()]
            wait = own.fetch({"rows": own.measure(tensors)[0]}, ["rows"])
        numbers = self._numbers()

        def found() -> Mapping[Site, Any]:
            rows = dict(zip(noted, wait()["rows"], strict=True)) if noted else {}
            return {**rows, **{s: Summary.of(np.array([x])).pack() for s, x in numbers.items()}}

        return found

    def _numbers(self) -> dict[Site, float]:
        """The numbers of the step: its learning rate, its batch size."""
        found = learning_rates(self._optimizer)
        if self._batch_size is not None:
            found["batch_size"] = float(self._batch_size)
        found[CALLS], self._most_calls = float(self._most_calls), 0
        return {Site(Kind.SCALAR, under(self._group, name)): x for name, x in found.items()}

    def _forward_ended(self, path: str, args: Any, outputs: Any) -> None:
        if not torch.is_grad_enabled():
            return
        if path:
            if self._parts is not None:
                self._parts.add(path, args, outputs)
            return
        self._parts = None
        self._calls += 1
        given, results = self._inputs, self._outputs = tensors_in(args), tensors_in(outputs)
        self._note_inputs(given)
        if results:
            self._note_variation(given, results[0])
        if not self._loop.timetable.is_asked_for_outputs:
            # Which layer computes it is known when the loss is.
            self._output = one_tensor(outputs)

    def _parts_ended(self, parts: PartCalls, term: LossTerm | None) -> None:
        """The parts of the module were called, one by one."""
        given = parts.given()
        self._note_inputs(given)
        self._calls, self._inputs, self._outputs = parts.most, parts.inputs(), parts.outputs()
        output = None if term is None or term.rest == "terms" else parts.output_of(term)
        if output is not None:
            self._note_variation(given, output)

    def _note_inputs(self, given: Sequence[Any]) -> None:
        if given and given[0].ndim:
            self._batch_size = int(given[0].shape[0])
        inputs = [x for x in given if x.is_floating_point()]
        for i, x in enumerate(inputs):
            self._note(batch_site(Kind.INPUT, [i] if len(inputs) > 1 else [], self._group), x)

    def _note_variation(self, given: Sequence[Any], output: Any) -> None:
        """Note how much the samples of a batch differ, in what is given and in what is returned."""
        if not given or given[0].shape[:1] != output.shape[:1]:
            return
        # Of several calls in a step, the first one counts.
        if Site(Kind.SCALAR, under(self._group, OUTPUT_VARIATION)) not in self._noted:
            self._note_number(INPUT_VARIATION, given[0])
            self._note_number(OUTPUT_VARIATION, output)

    def _note_number(self, name: str, tensor: Any) -> None:
        found = variation(tensor) if tensor.numel() <= _MOST_ELEMENTS else None
        if found is not None:
            self._note_value(name, found)

    def _backward_begins(self, tensors: Any) -> None:
        try:
            self._read(tensors)
        except Exception as error:
            self._loop.reporter.internal_error(
                error, "reading the graph of a loss", "facts about the loss, and its targets"
            )

    def _read(self, tensors: Any) -> None:
        is_first = self._facts is None
        root = next(nodes_of(tensors), None)
        if root is None or ((is_first or self._is_expected) and root not in self._own_losses):
            return
        if not is_first:
            self._check_form(root)
        if not is_first and not self._is_expected:
            return
        if is_first:
            reached = parameters_of(root)
            if not any(id(p) in reached for p in self._module.parameters()):
                return
            known = facts_of(self._module, self._optimizer, self._group)
            self._facts = known  # Whatever happens, read it once.
            if self._called_modules is not None:
                paths = [under(self._group, path) for path in self._called_modules.uncalled()]
                known = replace(known, parameters=replace(known.parameters, uncalled=paths))
                known = replace(known, mixing_samples=self._mixing(self._called_modules, root))
            known = with_graph(known, root, self._module, self._group)
            own = own_parameters(self._module, self._optimizer)
            groups = self._loop.known.groups_with(reached)
            others = [group for group in groups if group != self._group]
            loss = with_others(known.loss, own, reached, others)
            self._facts = replace(known, loss=loss)
            self._activations = functional_activations(self._facts)
            self._forms = {form(root)}
            self._loop.known.changed()
        if self._is_expected:
            seen = read_loss(root)
            term = seen.term
            if self._parts is not None:
                self._parts_ended(self._parts, term)
            self._most_calls, self._calls = max(self._calls, self._most_calls), 0
            self._read_targets(term)
            self._read_outputs(seen.parts)
            peak = None if self._attention is None else self._attention.read(root)
            if peak is not None:
                self._note_value(ATTENTION_PEAK, peak)

    def _mixing(self, called: CalledModules, root: Any) -> list[str]:
        term = read_loss(root).term
        target = None if term is None else target_of(term, self._outputs)
        if target is None or target.numel() != target.shape[0]:
            return []  # Of several targets for a sample, either axis may be that of samples.
        return [under(self._group, path) for path in called.mixing(int(target.shape[0]))]

    def _check_form(self, root: Any) -> None:
        """What is known of a loss does not hold for another one that takes its place."""
        seen = form(root)
        # Of several networks, each has a loss of its own.
        if self._group or self._facts is None or not self._forms or seen in self._forms:
            return
        self._forms.add(seen)
        now, known = read_loss(root).facts, self._facts.loss
        if (now.name, now.reduction) == (known.name, known.reduction):
            return
        if root in self._own_losses:
            self._forms = set()
            unknown = LossFacts(is_nonnegative=False, reduction="other", rest="terms")
            self._facts = replace(
                self._facts, loss=replace(unknown, through=self._facts.loss.through)
            )
            self._loop.known.changed()

    def _read_targets(self, term: LossTerm | None) -> None:
        target = None if term is None else target_of(term, self._outputs)
        if term is None or target is None:
            return
        if term.rest == "terms" and self._facts is not None and is_one_of(target, self._inputs):
            # What is to be reconstructed is the main task, whatever else is asked for.
            loss = replace(self._facts.loss, rest="penalties")
            if loss != self._facts.loss:
                self._facts = replace(self._facts, loss=loss)
                self._loop.known.changed()
        self._note(batch_site(Kind.TARGET, [], self._group), target)
        self._note_number(TARGET_VARIATION, target)
        # On a GPU, classes that the loss ignores are among the targets.
        if target.is_cuda and term.name == SPARSE:
            return
        given = self._inputs if self._parts is None else self._parts.last_ids()
        others = copied_classes(term, given)
        others |= rest_of_classes(term, self._batch_size or target.numel())
        for name, number in {**term_numbers(term, target), **others}.items():
            self._note_value(name, number)

    def _read_outputs(self, terms: Sequence[LossTerm]) -> None:
        """Note of each of several outputs its loss and the guess, and those of all together."""
        if len(terms) != len(self._names):
            self._names = output_names(terms, self._module, self._group)
        targets = {term: target_of(term, self._outputs) for term in terms}
        for name, number in numbers_of_outputs(targets, self._names).items():
            self._note_value(name, number)

    def _note_value(self, name: str, number: Any) -> None:
        self._note(Site(Kind.SCALAR, under(self._group, name)), number)

    def _note(self, site: Site, tensor: Any) -> None:
        is_plain = tensor.layout is torch.strided and not tensor.is_complex()
        if is_plain and 0 < tensor.numel() <= _MOST_ELEMENTS:
            self._noted[site] = tensor.detach()


def _do_nothing() -> None: ...
