"""Train steps as users write them, one for each backend.

A step is made of parts that differ between the backends: differentiating a loss
with respect to some of the variables, and applying the gradients with one of the
optimizers. On JAX both are stateless, so that here the state is a dictionary of
values by the variable's id, and `finish` makes Keras's tuple of it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

BACKEND = keras.backend.backend()


class Stateful:
    """TensorFlow and torch: variables hold their own values."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def gradients(self, variables: list[Any], loss: Callable[[], Any]) -> tuple[Any, list[Any]]:
        if BACKEND == "tensorflow":
            import tensorflow as tf

            with tf.GradientTape() as tape:
                value = loss()
            return value, tape.gradient(value, variables)
        self.model.zero_grad()
        value = loss()
        value.backward()
        return value.detach(), [v.value.grad for v in variables]

    def apply(self, optimizer: Any, gradients: list[Any], variables: list[Any]) -> None:
        if BACKEND == "tensorflow":
            optimizer.apply(gradients, variables)
            return
        import torch

        with torch.no_grad():
            optimizer.apply(gradients, variables)

    def call(self, layer: Any, x: Any) -> Any:
        return layer(x, training=True)


class Stateless:
    """JAX: values are passed in and returned."""

    def __init__(self, model: Any, state: Any) -> None:
        self.model = model
        self._lists = [
            model.trainable_variables,
            model.non_trainable_variables,
            model.optimizer.variables,
            model.metrics_variables,
        ]
        self.values = {
            id(variable): value
            for variables, values in zip(self._lists, state, strict=True)
            for variable, value in zip(variables, values, strict=True)
        }

    def gradients(self, variables: list[Any], loss: Callable[[], Any]) -> tuple[Any, list[Any]]:
        import jax

        def of_values(values: list[Any]) -> Any:
            before = dict(self.values)
            self.values.update({id(v): x for v, x in zip(variables, values, strict=True)})
            result = loss()
            self.values = before
            return result

        return jax.value_and_grad(of_values)([self.values[id(v)] for v in variables])

    def apply(self, optimizer: Any, gradients: list[Any], variables: list[Any]) -> None:
        mine = optimizer.variables
        # An optimizer that the state does not hold keeps the values it has.
        is_held = all(id(v) in self.values for v in mine)
        state = [self.values[id(v)] if is_held else v.value for v in mine]
        trained, state = optimizer.stateless_apply(
            state, gradients, [self.values[id(v)] for v in variables]
        )
        for variable, value in zip([*variables, *mine], [*trained, *state], strict=True):
            self.values[id(variable)] = value

    def call(self, layer: Any, x: Any) -> Any:
        trained = [self.values[id(v)] for v in layer.trainable_variables]
        others = [self.values[id(v)] for v in layer.non_trainable_variables]
        return layer.stateless_call(trained, others, x, training=True)[0]

    def finish(self) -> Any:
        return tuple([self.values[id(v)] for v in variables] for variables in self._lists)


class OwnStep(keras.Sequential):
    """A model whose train step is `step(parts, x, y)`, which returns the logs.

    `second`, an optimizer, is held by the model but not compiled into it. On JAX
    its variables have to be part of the training state, where Keras puts only those
    of the compiled one: they are offered as variables that are not trained.
    """

    step: Any = None
    second: Any = None

    @property
    def non_trainable_variables(self) -> list[Any]:
        own = super().non_trainable_variables
        return own + self.second.variables if BACKEND == "jax" and self.second else own

    def train_step(self, *args: Any) -> Any:
        x, y = args[-1][:2]
        if BACKEND != "jax":
            return type(self).step(Stateful(self), x, y)
        parts = Stateless(self, args[0])
        logs = type(self).step(parts, x, y)
        return logs, parts.finish()


def own_step(step: Callable[[Any, Any, Any], dict[str, Any]]) -> type[OwnStep]:
    """A model class with that train step."""
    return type("Own", (OwnStep,), {"step": staticmethod(step)})


def squared_error(parts: Any, x: Any, y: Any) -> Any:
    return keras.ops.mean(keras.ops.square(parts.call(parts.model, x) - y))
