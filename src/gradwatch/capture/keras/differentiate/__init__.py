"""Differentiates a model once, outside of training, without a trace; per framework."""

import keras

from gradwatch.capture.keras.differentiate.differentiator import Differentiator


def make_differentiator() -> Differentiator:
    name = keras.backend.backend()
    if name == "tensorflow":
        from gradwatch.capture.keras.differentiate.tensorflow_gradients import (
            TensorFlowDifferentiator,
        )

        return TensorFlowDifferentiator()
    if name == "jax":
        from gradwatch.capture.keras.differentiate.jax_gradients import JaxDifferentiator

        return JaxDifferentiator()
    from gradwatch.capture.keras.differentiate.torch_gradients import TorchDifferentiator

    return TorchDifferentiator()
