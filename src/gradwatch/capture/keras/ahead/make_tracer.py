"""Which trainings have a measured step that can be compiled before it is called."""

import keras

from gradwatch.capture.keras.again import StepKeeper
from gradwatch.capture.keras.ahead.tracer import Tracer
from gradwatch.core import KerasModel


def make_tracer(model: KerasModel, keeper: StepKeeper | None) -> Tracer | None:
    """None where the measured step is compiled as it is called, and training waits for it.

    It takes what keeping steps takes: steps that are compiled as Keras does it, on one device and
    in one process. Where several processes train, all must run the same step.
    """
    if keeper is None or model.steps_per_execution > 1:
        return None
    if keras.backend.backend() == "jax":
        from gradwatch.capture.keras.ahead.jax_tracer import JaxTracer

        return JaxTracer()
    from gradwatch.capture.keras.ahead.tensorflow_tracer import TensorFlowTracer

    return TensorFlowTracer(model, keeper, is_graph=not model.jit_compile)
