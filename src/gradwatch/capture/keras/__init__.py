"""Captures the tensors of Keras's own training loop, `fit`."""

from gradwatch.capture.keras.fit_capture import FitCapture
from gradwatch.capture.keras.replica_refusal import refusal

__all__ = ["FitCapture", "refusal"]
