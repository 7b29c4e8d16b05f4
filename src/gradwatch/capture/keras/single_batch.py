"""The gradients of one batch, without training on it."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from gradwatch.capture.keras.checked_batch import as_tensors, check_batch, shapes
from gradwatch.capture.keras.differentiate import make_differentiator
from gradwatch.capture.keras.layers import (
    ModelLayer,
    inside_recurrent,
    model_layers,
    output_sites_of,
)
from gradwatch.capture.keras.loss import loss_of, require_loss
from gradwatch.capture.keras.outputs import LayerTap
from gradwatch.capture.keras.variables import ModelVariable, model_variables
from gradwatch.capture.taps import make_tap
from gradwatch.capture.taps.calls import gradient_notices, site_paths
from gradwatch.core import Kind, Site, select
from gradwatch.util import Reporter


@dataclass(frozen=True)
class BatchArray:
    """An array of a site, with what is to be said of it."""

    site: Site
    layer: str
    """The path of the layer, among those that were asked for, that it belongs to."""
    layer_type: str
    shape: tuple[int, ...]
    dtype: str
    trainable: bool
    array: np.ndarray[Any, Any] | None
    """None where the loss does not depend on it."""


@dataclass(frozen=True)
class Batch:
    """What differentiating a batch has yielded."""

    loss: float
    gradients: list[BatchArray]
    """With respect to weights and outputs, layer by layer."""
    outputs: list[BatchArray]
    remarks: list[str]
    """What could not be seen, and why."""


def differentiate(
    model: Any,
    x: Any,
    y: Any,
    sample_weight: Any,
    loss: Any,
    layers: Sequence[select.Spec],
    training: bool,
) -> Batch:
    """The gradients of the loss of a batch; the model stays as it is.

    A model without variables is built on the batch. The loss is as for `loss_of`; all layers are
    differentiated if none are given. A batch that does not fit, a layer that does not exist, and
    a loss that is missing or not one number raise ValueError.
    """
    require_loss(model, loss)
    x, y, sample_weight = as_tensors(x), as_tensors(y), as_tensors(sample_weight)
    check_batch(model, x, y, sample_weight)
    if not all(layer.built for layer in model._flatten_layers()):
        with _explained(model, x):
            model(x)
    infos = [info for info in output_sites_of(model) if info.kind is Kind.OUTPUT]
    paths = {info.path for info in select.choose(layers, infos, "inspect")}
    chosen = [each for each in model_layers(model) if each.path in paths]
    weights = _weights_of(model, chosen, whole=not layers)
    return _Run(model, x, y, sample_weight, loss, training).of(chosen, weights)


class _ErrorList(Reporter):
    """Keeps internal errors, which are raised here: no training is under way."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[BaseException] = []

    def internal_error(self, error: BaseException, doing: str, lost: str) -> None:
        self.errors.append(error)


class _Run:
    def __init__(
        self, model: Any, x: Any, y: Any, sample_weight: Any, loss: Any, training: bool
    ) -> None:
        self._model = model
        self._batch = (x, y, sample_weight)
        self._loss = loss
        self._training = training
        self._errors = _ErrorList()
        self._tap = LayerTap(make_tap(model, self._errors), self._errors)
        self._remarks: list[str] = []
        self._places: dict[str, tuple[ModelLayer, str]] = {}

    def of(self, chosen: list[ModelLayer], weights: list[tuple[ModelVariable, str, str]]) -> Batch:
        differentiator = make_differentiator()
        inside = inside_recurrent(self._model)
        tapped = [each for each in chosen if id(each.layer) not in inside]
        self._remarks += [
            f"{each.path}: its outputs are computed inside the loop of a recurrent layer."
            for each in chosen
            if id(each.layer) in inside
        ]
        floats = [v for v in self._model.variables if "float" in str(v.dtype)]

        def step() -> dict[str, Any]:
            layers = self._model._flatten_layers(include_self=False)
            with self._tap.on([each.layer for each in tapped], layers):
                values = [v.value for v in floats]
                loss, gradients = differentiator.gradients(
                    lambda values, x: self._compute(floats, values, x), values, self._batch[0]
                )
            result = {"loss": loss}
            for variable, gradient in zip(floats, gradients, strict=True):
                if gradient is not None:
                    result[f"gradient {id(variable)}"] = gradient
            return result | self._tapped(tapped)

        compiled = not self._model.run_eagerly
        with _untouched(self._model), differentiator.guarded(self._model):
            found = {
                name: (tensor, keras.ops.convert_to_numpy(tensor))
                for name, tensor in differentiator.run(step, compiled).items()
            }
        self._tap.forget()
        if self._errors.errors:
            raise self._errors.errors[0]
        gradients, outputs = self._collect(chosen, weights, found)
        return Batch(float(found["loss"][1]), gradients, outputs, self._remarks)

    def _compute(self, variables: list[Any], values: list[Any], x: Any) -> Any:
        """The loss, with these values for these variables; nothing is assigned."""
        model = self._model
        _, y, sample_weight = self._batch
        given = dict(zip(map(id, variables), values, strict=True))
        mapping = [(v, given.get(id(v), v.value)) for v in model.variables]
        how = {"training": self._training} if model._call_has_training_arg else {}
        with keras.StatelessScope(state_mapping=mapping, collect_losses=True):
            with _explained(model, x):
                y_pred = model(x, **how)
            return loss_of(model, self._loss, x, y, y_pred, sample_weight, self._training)

    def _tapped(self, layers: list[ModelLayer]) -> dict[str, Any]:
        """The noted tensors that can leave the step, by name; and remarks on those that cannot."""
        result, missing = {}, {}
        for each in layers:
            calls = self._tap.calls(each.layer)
            whys = [self._tap.refusal(call) for call in calls] or ["not seen: it is not called"]
            for why in dict.fromkeys(filter(None, whys)):
                self._remarks.append(f"{each.path}: its outputs are {why}.")
            seen = [call for call, why in zip(calls, whys, strict=False) if why is None]
            for path, passage in site_paths(each.path, seen):
                self._places[path] = (each, path)
                result[f"{Kind.OUTPUT} {path}"] = passage.output
                if passage.gradient is not None:
                    result[f"{Kind.OUTPUT_GRADIENT} {path}"] = passage.gradient
                elif passage.is_input or passage.is_probability:
                    missing[path] = passage
        self._remarks += gradient_notices(missing, [])
        return result

    def _collect(
        self,
        chosen: list[ModelLayer],
        weights: list[tuple[ModelVariable, str, str]],
        found: dict[str, tuple[Any, np.ndarray[Any, Any]]],
    ) -> tuple[list[BatchArray], list[BatchArray]]:
        gradients, outputs = [], []
        types = {each.path: type(each.layer).__name__ for each in chosen}
        for layer in [*types, *(name for _, name, _ in weights if name not in types)]:
            for each, owner, kind in weights:
                if owner == layer:
                    _, array = found.get(f"gradient {id(each.variable)}", (None, None))
                    whole = each.describe(Kind.GRADIENT)[0]
                    gradients.append(
                        BatchArray(
                            whole.site,
                            layer,
                            kind,
                            whole.shape,
                            whole.dtype,
                            whole.trainable,
                            array,
                        )
                    )
            for path, (holder, _) in self._places.items():
                if holder.path != layer:
                    continue
                tensor, values = found[f"{Kind.OUTPUT} {path}"]
                shape, dtype = values.shape, str(keras.backend.standardize_dtype(tensor.dtype))
                _, array = found.get(f"{Kind.OUTPUT_GRADIENT} {path}", (None, None))
                about = (layer, types[layer], shape, dtype, bool(holder.layer.trainable))
                outputs.append(BatchArray(Site(Kind.OUTPUT, path), *about, values))
                gradients.append(BatchArray(Site(Kind.OUTPUT_GRADIENT, path), *about, array))
        return gradients, list({each.site: each for each in outputs}.values())


def _weights_of(
    model: Any, chosen: list[ModelLayer], whole: bool
) -> list[tuple[ModelVariable, str, str]]:
    """The weights of the chosen layers, with the innermost of these that holds them."""
    paths = {id(each.layer): each.path for each in chosen}
    found = []
    for each in model_variables(model):
        if "float" not in str(each.variable.dtype):
            continue
        holders = [layer for layer in each.owners if id(layer) in paths]
        if holders:
            found.append((each, paths[id(holders[-1])], type(holders[-1]).__name__))
        elif whole:
            found.append((each, str(model.name), type(model).__name__))
    return found


@contextmanager
def _explained(model: Any, x: Any) -> Iterator[None]:
    """Say which batch it was that a model could not be called on."""
    try:
        yield
    except Exception as error:
        raise ValueError(
            f"The model {model.name!r} cannot be called on this batch. "
            f"Received: x of shape {shapes(x)}. {error}"
        ) from error


@contextmanager
def _untouched(model: Any) -> Iterator[None]:
    """Restore Python's and NumPy's random state, and what Keras notes of losses."""
    python, numpy = random.getstate(), np.random.get_state()
    noted = [(layer, set(layer._loss_ids)) for layer in model._flatten_layers()]
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        for layer, ids in noted:
            layer._loss_ids.clear()
            layer._loss_ids.update(ids)
