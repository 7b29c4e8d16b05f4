"""The losses of the single samples of a step, before Keras reduces them to one number."""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import keras
from keras import ops

from gradwatch.capture.keras.attributes import attributes
from gradwatch.capture.keras.model_parts import fact
from gradwatch.capture.sample_losses import KEPT
from gradwatch.capture.taps import Passage, make_tap
from gradwatch.core import SAMPLE_MEDIAN, SAMPLES, KerasModel, Tensor, sample_path
from gradwatch.util import Reporter

_MOST_OUTPUTS = 1 << 14
"""Of a sample; the classes of a vocabulary would take long."""


class SampleLosses:
    """Notes what the compiled loss returns before the reduction, if there is only one loss.

    The loss is not called once more: its `call` is wrapped for the step, and its result goes on.
    """

    def __init__(
        self, model: KerasModel, reporter: Reporter, is_watched_replica: Callable[[], bool]
    ) -> None:
        self._model = model
        self._reporter = reporter
        self._tap = make_tap(model, reporter, is_watched_replica)
        self._noted: list[Passage] = []
        self._with_agreement = False
        self._columns: list[float] = []
        self._compared: list[tuple[Passage, Passage]] = []
        """Targets, and the outputs that they are compared with."""
        self._terms: list[tuple[Any, Passage, Passage]] = []
        """Each loss of several, its targets, and what it returns."""
        self._added: list[Passage] = []
        """What regularizers and `add_loss` add."""
        self._stack = ExitStack()

    @contextmanager
    def watching(self, with_agreement: bool) -> Iterator[None]:
        self._noted, self._compared, self._terms, self._added = [], [], [], []
        self._columns = []
        self._with_agreement = with_agreement
        compiled = fact(self._model, "_compile_loss")
        with ExitStack() as self._stack, self._tap.watching():
            if compiled is not None and hasattr(self._model, "_aggregate_additional_loss"):
                add = self._noting_added(self._model._aggregate_additional_loss)
                own = attributes(self._model, _aggregate_additional_loss=add)
                self._stack.enter_context(own)
            if compiled is not None and compiled.built:
                self._wrap_loss(compiled)
            elif compiled is not None:
                # It makes its losses in its first call, within the first step.
                self._stack.enter_context(attributes(compiled, build=self._building(compiled)))
            yield

    def numbers(self, weights: Tensor | None) -> Iterator[tuple[str, Tensor]]:
        """After the train step: the numbers about the samples, by path."""
        noted, self._noted = self._noted, []
        if len(noted) != 1 or not self._tap.can_leave(noted[0].output):
            return
        losses = ops.cast(noted[0].output, "float32")
        if not losses.shape:
            return  # A function of the user's that reduces them.
        if len(losses.shape) > 1:
            losses = ops.mean(losses, axis=tuple(range(1, len(losses.shape))))
        if weights is not None and tuple(weights.shape) == tuple(losses.shape):
            losses = losses * ops.cast(weights, "float32")
        yield from _worst(losses)

    def agreement(self) -> Tensor | None:
        """After the train step: how outputs and targets are correlated; None if unknown."""
        compared, self._compared = self._compared, []
        if len(compared) != 1:
            return None
        targets, outputs = (passage.output for passage in compared[0])
        if not (self._tap.can_leave(targets) and self._tap.can_leave(outputs)):
            return None
        return correlation(targets, outputs)

    def outputs_of_target(self) -> float | None:
        """After the train step: with how many outputs of a sample each target is compared.

        None if it is one, or unknown.
        """
        known, self._columns = self._columns, []
        return known[0] if len(known) == 1 and known[0] > 1.0 else None

    def added(self) -> Tensor | None:
        """After the train step: what regularizers and `add_loss` add to the compiled loss."""
        added, self._added = self._added, []
        if not added or not all(self._tap.can_leave(each.output) for each in added):
            return None
        return sum(ops.cast(each.output, "float32") for each in added)

    def terms(self) -> list[tuple[Any, Tensor, Tensor]]:
        """After the train step: of each output its entry of the compiled loss, targets and losses.

        Empty if there is only one output.
        """
        noted, self._terms = self._terms, []
        compiled = fact(self._model, "_compile_loss")
        entries = [] if compiled is None else compiled._flat_losses or []
        if len(entries) < 2 or [each.loss for each in entries] != [loss for loss, _, _ in noted]:
            return []
        passages = [each for _, *both in noted for each in both]
        if not all(self._tap.can_leave(each.output) for each in passages):
            return []
        return [
            (entry, targets.output, losses.output)
            for entry, (_, targets, losses) in zip(entries, noted, strict=True)
        ]

    def _wrap_loss(self, compiled: Any) -> None:
        losses = [each.loss for each in compiled._flat_losses]
        if not all(isinstance(loss, keras.losses.Loss) for loss in losses):
            return
        for loss in {id(loss): loss for loss in losses}.values():
            noting = self._noting if len(losses) == 1 else self._noting_term
            self._stack.enter_context(attributes(loss, call=noting(loss.call, loss)))

    def _building(self, compiled: Any) -> Any:
        build = compiled.build

        def noting_build(*args: Any, **kwargs: Any) -> Any:
            result = build(*args, **kwargs)
            with self._reporter.guard("finding the loss of a model", "losses of samples"):
                self._wrap_loss(compiled)
            return result

        return noting_build

    def _noting_added(self, add: Any) -> Any:
        def noting_add(loss: Any) -> Any:
            value = add(loss)
            with self._reporter.guard("noting an added loss", "the regularization"):
                self._added.append(self._passage(value))
            return value

        return noting_add

    def _noting_term(self, call: Any, loss: Any) -> Any:
        def noting_call(*args: Any, **kwargs: Any) -> Any:
            losses = call(*args, **kwargs)
            with self._reporter.guard("noting the loss of an output", "losses of outputs"):
                if len(args) == 2:
                    self._terms.append((loss, self._passage(args[0]), self._passage(losses)))
            return losses

        return noting_call

    def _passage(self, tensor: Tensor) -> Passage:
        passage = Passage(wants_gradient=False)
        self._tap.through(tensor, passage)
        return passage

    def _noting(self, call: Any, loss: Any) -> Any:
        def noting_call(*args: Any, **kwargs: Any) -> Any:
            losses = call(*args, **kwargs)
            with self._reporter.guard("noting the losses of samples", "losses of samples"):
                self._noted.append(self._passage(losses))
                if len(args) == 2:
                    self._columns.extend(_columns(args[1], args[0]))
                if self._with_agreement and len(args) == 2:
                    self._compared.append((self._passage(args[0]), self._passage(args[1])))
            return losses

        return noting_call


def correlation(targets: Tensor, outputs: Tensor) -> Tensor | None:
    """How outputs go with their targets, from -1 to 1, apart from the means of the columns.

    Whole numbers beside outputs of one more axis are classes. None if the shapes do not fit.
    """
    shape = tuple(outputs.shape)
    if not shape or None in shape[1:] or math.prod(shape[1:]) > _MOST_OUTPUTS:
        return None
    if len(targets.shape) == len(shape) - 1 and shape[-1] > 1:
        targets = ops.one_hot(ops.cast(targets, "int32"), shape[-1])
    elif len(targets.shape) == len(shape) - 1:
        targets = ops.expand_dims(targets, -1)  # As Keras itself does.
    if len(targets.shape) != len(shape) or tuple(targets.shape)[1:] != shape[1:]:
        return None
    columns = shape[-1] if len(shape) > 1 else 1
    x, y = (
        ops.reshape(ops.cast(ops.stop_gradient(each), "float32"), (-1, columns))
        for each in (targets, outputs)
    )
    x, y = x - ops.mean(x, axis=0, keepdims=True), y - ops.mean(y, axis=0, keepdims=True)
    return ops.sum(x * y) / ops.sqrt(ops.sum(x * x) * ops.sum(y * y) + 1e-20)


def _columns(outputs: Tensor, targets: Tensor) -> Iterator[float]:
    """How many outputs there are for each target of a sample, if the shapes tell it."""
    given, wanted = tuple(outputs.shape)[1:], tuple(targets.shape)[1:]
    if len(outputs.shape) > 1 and None not in (*given, *wanted) and math.prod(wanted) > 0:
        yield math.prod(given) / math.prod(wanted)


def _worst(losses: Tensor) -> Iterator[tuple[str, Tensor]]:
    """As `worst_samples`, in the step, for any number of samples: those there are not are NaN."""
    count = ops.shape(losses)[0]
    missing = ops.full((KEPT,), -float("inf"), "float32")
    padded = ops.concatenate([missing, losses])
    is_nan = ops.isnan(padded)
    order = ops.argsort(ops.where(is_nan, ops.full_like(padded, float("inf")), padded))
    in_order = ops.take(padded, order)
    yield SAMPLES, ops.cast(ops.convert_to_tensor(count), "float32")
    places = ops.stack([KEPT + (count - 1) // 2, KEPT + count // 2])
    yield SAMPLE_MEDIAN, ops.mean(ops.take(in_order, places))
    for rank in range(1, KEPT + 1):
        place = KEPT + count - rank
        yield sample_path(rank, "index"), ops.cast(ops.take(order, place) - KEPT, "float32")
        yield sample_path(rank, "loss"), ops.take(in_order, place)
