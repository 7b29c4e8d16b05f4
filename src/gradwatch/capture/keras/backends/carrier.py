"""Carries tensors out of a branch of a compiled TensorFlow step."""

import threading
from collections.abc import Mapping
from typing import Any

import tensorflow as tf


class Carrier:
    """Variables that are written inside of a branch and read outside.

    With loss scaling, the optimizer of Keras reduces and applies gradients in a branch that is
    run only if they are finite, and out of which no tensor comes.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._is_full = self._variable("is_full", False)
        self._held: dict[str, Any] = {}

    def clear(self) -> None:
        """Before the branch: nothing has been put."""
        self._is_full.assign(False)

    def put(self, tensors: Mapping[str, Any]) -> None:
        """In the branch: keep these, whose shapes are known."""
        for name, tensor in tensors.items():
            known = self._held.get(name)
            if known is None or known.shape != tensor.shape or known.dtype != tensor.dtype:
                zeros = tf.zeros_initializer()
                self._held[name] = self._variable(
                    name, lambda z=zeros, t=tensor: z(t.shape, t.dtype)
                )
            self._held[name].assign(tensor)
        self._is_full.assign(True)

    def is_full(self) -> Any:
        """After the branch: whether anything was put, as a tensor."""
        return self._is_full.read_value()

    def take(self) -> dict[str, Any]:
        """After the branch: what was put there last."""
        return {name: variable.read_value() for name, variable in self._held.items()}

    def _variable(self, name: str, value: Any) -> Any:
        made: list[Any] = []

        def make() -> None:
            with tf.device(self._device):
                made.append(tf.Variable(value, trainable=False, name=f"gradwatch_{name}"))

        # On a thread of its own, where neither a function that is being traced nor a
        # strategy's scope has a say in what a variable is.
        thread = threading.Thread(target=make, name="gradwatch-variable")
        thread.start()
        thread.join()
        return made[0]
