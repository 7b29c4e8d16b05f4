"""What surrounds the network in a training step: its data, its loss, its learning rate."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any

import keras

from gradwatch.capture.keras.attributes import attributes
from gradwatch.capture.keras.backends import Backend
from gradwatch.capture.keras.optimizers import find_optimizers, innermost, is_pure_schedule
from gradwatch.capture.keras.output_watch import Row
from gradwatch.core import Kind, Site, SiteInfo

LOSS = "loss"
BATCH_SIZE, LEARNING_RATE, LOSS_SCALE = "batch_size", "learning_rate", "loss_scale"
_ROOTS = {Kind.INPUT: "input", Kind.TARGET: "target", Kind.LOSS: LOSS, Kind.SCALAR: "scalar"}


def around_sites(kinds: Collection[Kind]) -> list[SiteInfo]:
    """The sites of those of the kinds that surround the network.

    They are one a kind: which tensors there are is known only in the step.
    """
    return [
        SiteInfo(Site(kind, root), (), "float32", root, trainable=False)
        for kind, root in _ROOTS.items()
        if kind in kinds
    ]


class AroundStep:
    """Notes the data of a step, the loss that it reports, and the optimizer's numbers.

    The loss is what the metric called `loss` is told, which is how Keras comes by the
    one that it shows: that of the batch, undone of any loss scaling.

    Args:
        model: the Keras model.
        kinds: what is to be noted.
        backend: the tensors' own framework.
        fault: told of an exception of ours; the step goes on without what it was about.
        mine: tells whether it is the replica to be noted that runs; None if there is but one.
    """

    def __init__(
        self,
        model: Any,
        kinds: Collection[Kind],
        backend: Backend,
        fault: Callable[[Exception], None],
        mine: Callable[[], bool] | None = None,
    ) -> None:
        self._model = model
        self._kinds = frozenset(kinds)
        self._backend = backend
        self._fault = fault
        self._mine = mine
        self._data: Any = None
        self._losses: list[Any] = []
        self._rate: Any = None
        self._scope: Any = None

    @classmethod
    def of(
        cls,
        model: Any,
        kinds: Collection[Kind],
        backend: Backend,
        fault: Callable[[Exception], None],
        mine: Callable[[], bool] | None = None,
    ) -> AroundStep | None:
        """One for the kinds that are asked for; None if none of them surrounds the network.

        None also where torch compiles the step: its compiler follows our bookkeeping, and
        fails at it.
        """
        wanted = [kind for kind in _ROOTS if kind in kinds]
        if not wanted or _is_compiled_by_torch(model):
            return None
        return cls(model, wanted, backend, fault, mine)

    @contextmanager
    def watching(self, data: Any) -> Iterator[None]:
        """Around the model's train step on that data."""
        self._data, self._losses, self._rate = data, [], None
        self._scope = self._backend.scope()
        with ExitStack() as stack:
            if Kind.LOSS in self._kinds:
                for metric in self._trackers():
                    update = self._noting_update(metric.update_state)
                    stack.enter_context(attributes(metric, update_state=update))
            if Kind.SCALAR in self._kinds:
                for optimizer in map(innermost, self._optimizers):
                    read = self._noting_rate(optimizer._get_current_learning_rate)
                    stack.enter_context(attributes(optimizer, _get_current_learning_rate=read))
            yield

    def give(self, data: Any) -> None:
        """The data of the step, where it is known only after `watching` has begun."""
        self._data = data

    def rows(self, sites: Sequence[Site], state: Any) -> list[Row]:
        """After the train step: the tensors of those of the sites that surround the network.

        Args:
            sites: all sites that are measured.
            state: on JAX, the training state after the step; elsewhere None.
        """
        found: dict[Kind, list[tuple[str, Any]]] = {}
        for kind, find in (
            (Kind.INPUT, lambda: self._batch(0, Kind.INPUT)),
            (Kind.TARGET, lambda: self._batch(1, Kind.TARGET)),
            (Kind.LOSS, lambda: [(LOSS, x) for x in self._losses[-1:]]),
            (Kind.SCALAR, lambda: [*self._batch_size(), *self._optimizer_numbers(state)]),
        ):
            try:
                found[kind] = list(find()) if kind in self._kinds else []
            except Exception as error:
                self._fault(error)
        self._data, self._losses, self._rate = None, [], None
        return [
            Row(position, Site(site.kind, path), tensor)
            for position, site in enumerate(sites)
            for path, tensor in found.get(site.kind, ())
        ]

    def _batch(self, place: int, kind: Kind) -> Iterator[tuple[str, Any]]:
        """The tensors of the batch's x or y, by their paths: `input`, `input/mask`, `target/0`."""
        part = keras.utils.unpack_x_y_sample_weight(self._data)[place]
        if part is None:
            return
        for keys, leaf in keras.tree.flatten_with_path(part):
            number = _as_number(leaf)
            if number is not None:
                yield "/".join([_ROOTS[kind], *map(str, keys)]), number

    def _batch_size(self) -> Iterator[tuple[str, Any]]:
        x = keras.utils.unpack_x_y_sample_weight(self._data)[0]
        first = next((leaf for leaf in keras.tree.flatten(x) if _as_number(leaf) is not None), None)
        if first is not None and len(first.shape):
            samples = keras.ops.convert_to_tensor(keras.ops.shape(first)[0])
            yield BATCH_SIZE, keras.ops.cast(samples, "float32")

    def _optimizer_numbers(self, state: Any) -> Iterator[tuple[str, Any]]:
        if len(self._optimizers) != 1:
            return  # With several, it would have to be said whose they are.
        outer = self._optimizers[0]
        inner = innermost(outer)
        # On JAX the variables' values are in the state, and nowhere else.
        values = {} if state is None else _values(outer, state[2])
        rate: Any = inner._learning_rate
        if self._rate is not None:
            yield LEARNING_RATE, self._rate
        elif is_pure_schedule(rate):
            # The step used it in a branch. It has counted itself already.
            before = keras.ops.subtract(_value(inner._iterations, values), 1)
            yield LEARNING_RATE, keras.ops.cast(rate(before), "float32")
        elif isinstance(rate, keras.Variable):
            yield LEARNING_RATE, keras.ops.cast(_value(rate, values), "float32")
        scale = getattr(outer, "dynamic_scale", None)
        if scale is not None:
            yield LOSS_SCALE, keras.ops.cast(_value(scale, values), "float32")

    @cached_property
    def _optimizers(self) -> list[Any]:
        # Kept: torch asks at every measured step.
        return find_optimizers(self._model)

    def _trackers(self) -> list[Any]:
        return [metric for metric in self._model.metrics if metric.name == LOSS]

    def _noting_update(self, update: Any) -> Any:
        """A metric's `update_state` that notes what it is told."""

        def noting_update(values: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                if self._can_note():
                    with self._backend.aside():
                        self._losses.append(_mean(values))
            except Exception as error:
                self._fault(error)
            return update(values, *args, **kwargs)

        return noting_update

    def _noting_rate(self, read: Any) -> Any:
        """An optimizer's way to its learning rate, which is noted."""

        def noting_read() -> Any:
            rate = read()
            try:
                if self._can_note():
                    with self._backend.aside():
                        self._rate = _mean(rate)
            except Exception as error:
                self._fault(error)
            return rate

        return noting_read

    def _can_note(self) -> bool:
        """Whether what is made here can leave the step, and is of the replica to be noted."""
        is_mine = self._mine is None or self._mine()
        return is_mine and bool(self._backend.scope() == self._scope)


def _is_compiled_by_torch(model: Any) -> bool:
    is_torch = keras.backend.backend() == "torch"
    return is_torch and bool(model.compiled and model.jit_compile and not model.run_eagerly)


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
