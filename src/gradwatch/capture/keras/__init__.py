"""Capturing the tensors of Keras's own training loop, `fit`."""

from gradwatch.capture.keras.fit import FitCapture, refusal

__all__ = ["FitCapture", "refusal"]
