"""Reads a tensor and its gradient as they pass by, one module per framework."""

from collections.abc import Callable

from gradwatch.capture.taps.passage import MEASURED, Passage, Tap, always
from gradwatch.core import KerasModel
from gradwatch.util import Reporter

__all__ = ["MEASURED", "Passage", "Tap", "always", "make_tap"]


def make_tap(
    model: KerasModel, reporter: Reporter, is_watched_replica: Callable[[], bool] = always
) -> Tap:
    """The tap of the backend that Keras is running on, for a step of that model."""
    # Not at the top: plain torch modules are tapped where there is no Keras.
    import keras

    name = keras.backend.backend()
    if name == "tensorflow":
        from gradwatch.capture.taps.tensorflow_tap import TensorFlowTap

        return TensorFlowTap(reporter, is_watched_replica)
    if name == "jax":
        from gradwatch.capture.taps.jax_tap import JaxTap

        return JaxTap()
    from gradwatch.capture.taps.torch_tap import TorchTap

    return TorchTap(compiled=bool(model.compiled and model.jit_compile and not model.run_eagerly))
