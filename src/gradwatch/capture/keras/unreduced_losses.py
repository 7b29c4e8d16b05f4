"""The losses of the single samples of a step, before Keras reduces them to one number."""

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
        self._compared: list[tuple[Passage, Passage]] = []
        """Targets, and the outputs that they are compared with."""
        self._terms: list[tuple[Any, Passage, Passage]] = []
        """Each loss of several, its targets, and what it returns."""
        self._added: list[Passage] = []
        """What regularizers and `add_loss` add."""
        self._stack = ExitStack()

    @contextmanager
    def watching(self) -> Iterator[None]:
        self._noted, self._compared, self._terms, self._added = [], [], [], []
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

    def compared(self) -> tuple[Tensor, Tensor] | None:
        """After the train step: the targets and the outputs of the only loss; None if unknown."""
        compared, self._compared = self._compared, []
        if len(compared) != 1:
            return None
        targets, outputs = (passage.output for passage in compared[0])
        if not (self._tap.can_leave(targets) and self._tap.can_leave(outputs)):
            return None
        return ops.stop_gradient(targets), ops.stop_gradient(outputs)

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
                    self._compared.append((self._passage(args[0]), self._passage(args[1])))
            return losses

        return noting_call


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
