"""Compiling the measured step on a thread, while Keras's own step trains."""

from gradwatch.capture.keras.ahead.compiled_ahead import CompiledAhead
from gradwatch.capture.keras.ahead.make_tracer import make_tracer
from gradwatch.capture.keras.ahead.tracer import Taken, Tracer

__all__ = ["CompiledAhead", "Taken", "Tracer", "make_tracer"]
