"""The inputs of a training step that surround the network: data, loss, learning rate."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cached_property
from typing import Any

import keras

from gradwatch.capture.batch import ROOTS, batch_site
from gradwatch.capture.constant_guess import CLASS_GUESS, CONSTANT_LOSS, WEIGHTED_GUESS
from gradwatch.capture.keras.attributes import replaced
from gradwatch.capture.keras.backends.keras_backend import KerasBackend
from gradwatch.capture.keras.compared import AGREEMENT, compared_numbers
from gradwatch.capture.keras.describe_model import loss_facts
from gradwatch.capture.keras.guesses import guess_of, numbers_of_outputs, weighted_numbers
from gradwatch.capture.keras.model_parts import fact
from gradwatch.capture.keras.optimizers import (
    find_optimizers,
    is_pure_schedule,
    updating_optimizers,
)
from gradwatch.capture.keras.unreduced_losses import SampleLosses
from gradwatch.capture.rest_classes import REST_GUESS, REST_LOSS, REST_SHARE
from gradwatch.capture.site_table import Row
from gradwatch.capture.variation_names import COMPARED
from gradwatch.core import (
    ADDED_LOSS,
    KerasModel,
    KerasOptimizer,
    Kind,
    LossFacts,
    Site,
    SiteInfo,
    Tensor,
)
from gradwatch.util import Reporter

LOSS = "loss"
BATCH_SIZE, LEARNING_RATE, LOSS_SCALE = "batch_size", "learning_rate", "loss_scale"
INPUT_SPREAD, SAMPLE_WEIGHT = "input_spread", "sample_weight"
OF_WHOLE_BATCH = frozenset({
    CONSTANT_LOSS, ADDED_LOSS, INPUT_SPREAD, AGREEMENT, SAMPLE_WEIGHT, CLASS_GUESS, WEIGHTED_GUESS,
    REST_SHARE, REST_LOSS, REST_GUESS, *COMPARED,
})  # fmt: skip
"""Numbers that need all samples of a batch at once, which several devices share."""
_ROOTS = ROOTS | {Kind.LOSS: LOSS, Kind.SCALAR: "scalar", Kind.SAMPLE_LOSS: "sample_loss"}


def step_input_sites(kinds: Collection[Kind]) -> list[SiteInfo]:
    """One site for each kind that surrounds the network: its tensors are known only in the step."""
    return [
        SiteInfo(Site(kind, root), (), "float32", root, trainable=False)
        for kind, root in _ROOTS.items()
        if kind in kinds
    ]


def are_step_inputs_seen(model: KerasModel, kinds: Collection[Kind]) -> bool:
    """Whether any of the kinds surrounds the network, and can be seen.

    Not where torch compiles the step: its compiler follows the bookkeeping, and fails at it.
    """
    is_torch = keras.backend.backend() == "torch"
    is_compiled = is_torch and model.compiled and model.jit_compile and not model.run_eagerly
    return not is_compiled and any(kind in kinds for kind in _ROOTS)


class StepInputs:
    """Notes the data of a step, the loss that it reports, and the optimizer's numbers.

    The loss is taken from the updates of the metric called `loss`, from which Keras computes the
    one that it shows: that of the batch, without any loss scale.
    """

    def __init__(
        self,
        model: KerasModel,
        kinds: Collection[Kind],
        backend: KerasBackend,
        reporter: Reporter,
    ) -> None:
        self._model = model
        # In this order everywhere: all processes must compile the same step.
        self._kinds = [kind for kind in _ROOTS if kind in kinds]
        self._backend = backend
        self._reporter = reporter
        self._data: Any = None
        self._losses: list[Tensor] = []
        self._rates: dict[int, Tensor] = {}
        """What the step read, by the optimizer's id."""
        self._scope: Any = None
        # What needs all samples of a batch at once is left out where several devices share them.
        self._has_whole_batch = (
            not backend.is_replicated and keras.distribution.distribution() is None
        )
        self._samples: SampleLosses | None = None
        if Kind.SAMPLE_LOSS in kinds and self._has_whole_batch:
            self._samples = SampleLosses(model, reporter, backend.is_watched_replica)

    @contextmanager
    def watching(self, data: Any) -> Iterator[None]:
        self._data, self._losses, self._rates = data, [], {}
        self._scope, samples = self._backend.scope(), self._samples
        losses = nullcontext() if samples is None else samples.watching()
        with replaced(self._taps()), losses:
            yield

    def _taps(self) -> Iterator[tuple[Any, dict[str, Any]]]:
        if Kind.LOSS in self._kinds:
            for metric in self._model.metrics:
                if metric.name == LOSS:
                    yield metric, {"update_state": self._noting_update(metric.update_state)}
        if Kind.SCALAR in self._kinds:
            for optimizer in updating_optimizers(self._optimizers):
                read = self._noting_rate(optimizer)
                yield optimizer, {"_get_current_learning_rate": read}

    def give(self, data: Any) -> None:
        self._data = data

    def give_logs(self, logs: Any) -> None:
        """Take the loss from what a step of the user's own returns, if no metric was given it.

        Where the model has a mean of its own, that may be what is returned: the mean of an epoch.
        """
        is_own = type(self._model).train_step is not keras.Model.train_step
        loss = logs.get(LOSS) if is_own and isinstance(logs, dict) else None
        if loss is None or self._losses or not self._can_note():
            return
        means = [m for m in self._model.metrics if type(m) is keras.metrics.Mean]
        if all(mean.name == LOSS for mean in means) and hasattr(loss, "shape"):
            self._losses.append(_mean(loss))

    def rows(self, sites: Sequence[Site], state: Any) -> list[Row]:
        """After the train step: the tensors of those of the sites that surround the network.

        On JAX, `state` is the training state after the step; elsewhere it is None.
        """
        found: dict[Kind, list[tuple[Site, Tensor]]] = {}
        for kind in self._kinds:
            try:
                found[kind] = list(self._found(kind, state))
            except Exception as error:
                self._reporter.internal_error(
                    error, f"reading the {kind} of a step", f"the {kind} rows of that step"
                )
        self._data, self._losses, self._rates = None, [], {}
        return [
            Row(position, own, tensor)
            for position, site in enumerate(sites)
            for own, tensor in found.get(site.kind, ())
        ]

    def _found(self, kind: Kind, state: Any) -> Iterator[tuple[Site, Tensor]]:
        if kind is Kind.LOSS:
            yield from ((Site(kind, LOSS), loss) for loss in self._losses[-1:])
        elif kind is Kind.SCALAR:
            numbers = [
                *self._batch_size(),
                *self._optimizer_numbers(state),
                *self._constant_loss(),
                *self._input_spread(),
                *self._compared(),
            ]
            yield from ((Site(kind, name), number) for name, number in numbers)
        elif kind is Kind.SAMPLE_LOSS:
            if self._samples is not None:
                weights = keras.utils.unpack_x_y_sample_weight(self._data)[2]
                for path, number in self._samples.numbers(weights):
                    yield Site(kind, path), number
        else:
            yield from self._batch(kind)

    def _batch(self, kind: Kind) -> Iterator[tuple[Site, Tensor]]:
        part = keras.utils.unpack_x_y_sample_weight(self._data)[kind is Kind.TARGET]
        if part is not None:
            for keys, leaf in keras.tree.flatten_with_path(part):
                number = _as_number(leaf)
                if number is not None:
                    yield batch_site(kind, keys), number

    def _batch_size(self) -> Iterator[tuple[str, Tensor]]:
        x = keras.utils.unpack_x_y_sample_weight(self._data)[0]
        first = next((leaf for leaf in keras.tree.flatten(x) if _as_number(leaf) is not None), None)
        if first is not None and len(first.shape):
            samples = keras.ops.shape(first)[0]
            if self._backend.framework.NAME == "torch":
                # A number that is copied to a GPU would be waited for.
                yield BATCH_SIZE, keras.ops.full((), samples, "float32")
                return
            samples = keras.ops.convert_to_tensor(samples)
            yield BATCH_SIZE, keras.ops.cast(samples, "float32")

    def _constant_loss(self) -> Iterator[tuple[str, Tensor]]:
        """What the loss would be without looking at the inputs.

        And what regularizers and `add_loss` add to it.
        """
        if not self._has_whole_batch:
            return
        _, y, weights = keras.utils.unpack_x_y_sample_weight(self._data)
        if self._samples is not None:
            added = self._samples.added()
            if added is not None:
                yield ADDED_LOSS, added
            if weights is None:
                yield from numbers_of_outputs(self._samples.terms())
        targets = _as_number(y)
        if weights is not None:
            yield SAMPLE_WEIGHT, _mean(keras.tree.flatten(weights)[0])
            if targets is not None and _as_number(weights) is not None:
                yield from weighted_numbers(self._loss, targets, weights)
        elif targets is not None:
            guess = guess_of(self._loss, targets)
            if guess is not None:
                yield CONSTANT_LOSS, guess

    def _input_spread(self) -> Iterator[tuple[str, Tensor]]:
        """The largest difference of the first samples; 0 if all are the same."""
        x = keras.utils.unpack_x_y_sample_weight(self._data)[0]
        known = [_as_number(leaf) for leaf in keras.tree.flatten(x)]
        if not self._has_whole_batch or not known or any(leaf is None for leaf in known):
            return
        spreads = [
            keras.ops.max(keras.ops.abs(keras.ops.cast(leaf[:8] - leaf[:1], "float32")))
            for leaf in known
            if len(leaf.shape)
        ]
        if spreads:
            yield INPUT_SPREAD, keras.ops.max(keras.ops.stack(spreads))

    def _compared(self) -> Iterator[tuple[str, Tensor]]:
        """How outputs compare with targets, beside the loss."""
        compared = None if self._samples is None else self._samples.compared()
        if compared is None:
            return
        x, _, weights = keras.utils.unpack_x_y_sample_weight(self._data)
        first = keras.tree.flatten(x)
        given = first[0] if first and _as_number(first[0]) is not None else None
        weights = _as_number(weights)
        for name, number in compared_numbers(self._loss, given, *compared, weights):
            yield name, keras.ops.stop_gradient(number)

    @cached_property
    def _loss(self) -> LossFacts:
        # That it cannot be read is said with the other facts about the model.
        with suppress(Exception):
            return loss_facts(self._model)
        return LossFacts()

    def _optimizer_numbers(self, state: Any) -> Iterator[tuple[str, Tensor]]:
        if len(self._optimizers) != 1:
            return  # With several, the numbers would need a name for each.
        outer = self._optimizers[0]
        # On JAX the variables' values are in the state, and nowhere else.
        values = {} if state is None else _values(outer, state[2])
        updating = updating_optimizers([outer])
        for optimizer in updating:
            rate = self._rate(optimizer, values)
            if rate is not None:
                of_which = f"/{optimizer.name}" if len(updating) > 1 else ""
                yield LEARNING_RATE + of_which, rate
        scale = fact(outer, "dynamic_scale")
        if scale is not None:
            yield LOSS_SCALE, keras.ops.cast(_value(scale, values), "float32")

    def _rate(self, optimizer: KerasOptimizer, values: dict[int, Any]) -> Tensor:
        if id(optimizer) in self._rates:
            return self._rates[id(optimizer)]
        rate: Any = optimizer._learning_rate
        if is_pure_schedule(rate):
            # The step used it in a branch. It has counted itself already.
            before = keras.ops.subtract(_value(optimizer._iterations, values), 1)
            return keras.ops.cast(rate(before), "float32")
        if isinstance(rate, keras.Variable):
            return keras.ops.cast(_value(rate, values), "float32")
        return None

    @cached_property
    def _optimizers(self) -> list[KerasOptimizer]:
        # Kept: torch asks at every measured step.
        return find_optimizers(self._model)

    def _noting_update(self, update: Any) -> Any:
        def noting_update(values: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                if self._can_note():
                    with self._backend.aside():
                        self._losses.append(_mean(values))
            except Exception as error:
                self._reporter.internal_error(error, "noting the loss of a step", "the loss")
            return update(values, *args, **kwargs)

        return noting_update

    def _noting_rate(self, optimizer: KerasOptimizer) -> Any:
        read = optimizer._get_current_learning_rate

        def noting_read() -> Any:
            rate = read()
            try:
                if self._can_note():
                    with self._backend.aside():
                        self._rates[id(optimizer)] = _mean(rate)
            except Exception as error:
                self._reporter.internal_error(
                    error, "noting the learning rate of a step", "the learning rate"
                )
            return rate

        return noting_read

    def _can_note(self) -> bool:
        """Whether a tensor that is made here can leave the step, and is of this replica."""
        is_outside = bool(self._backend.scope() == self._scope)
        return is_outside and self._backend.is_watched_replica()


def _mean(values: Any) -> Any:
    values = keras.ops.cast(keras.ops.stop_gradient(keras.ops.convert_to_tensor(values)), "float32")
    return keras.ops.mean(values) if len(values.shape) else values


def _as_number(leaf: Any) -> Any:
    """The tensor, if it is a dense one of numbers; whole numbers become floats."""
    if leaf is None or type(leaf).__name__ in ("RaggedTensor", "SparseTensor", "BCOO"):
        return None
    if not hasattr(leaf, "dtype") or not hasattr(leaf, "shape"):
        return None
    dtype = keras.backend.standardize_dtype(leaf.dtype)
    if keras.backend.is_float_dtype(dtype):
        return leaf
    if keras.backend.is_int_dtype(dtype) or dtype == "bool":
        return keras.ops.cast(leaf, "float32")
    return None


def _values(optimizer: Any, values: Any) -> dict[int, Any]:
    return {id(v): x for v, x in zip(optimizer.variables, values, strict=True)}


def _value(variable: Any, values: dict[int, Any]) -> Any:
    if id(variable) in values:
        # On JAX a variable has no value of its own while the model trains.
        return values[id(variable)]
    return variable.value
