"""What differs between Keras's backends: the shape of a training step."""

import keras

from gradwatch.capture.keras.backends.keras_backend import KerasBackend
from gradwatch.core import KerasModel

__all__ = ["KerasBackend", "make_backend"]


def make_backend(model: KerasModel) -> KerasBackend:
    """The backend that Keras is running on."""
    name = keras.backend.backend()
    if name == "tensorflow":
        if model.distribute_strategy.num_replicas_in_sync > 1:
            from gradwatch.capture.keras.backends.mirrored_backend import MirroredBackend

            return MirroredBackend(model)
        from gradwatch.capture.keras.backends.tensorflow_backend import TensorFlowBackend

        return TensorFlowBackend(model)
    if name == "jax":
        from gradwatch.capture.keras.backends.jax_backend import JaxBackend

        return JaxBackend(model)
    if name == "torch":
        from gradwatch.capture.keras.backends.torch_backend import TorchBackend

        return TorchBackend()
    raise RuntimeError(f"Keras's backend {name!r} does not train, so there is nothing to watch.")
