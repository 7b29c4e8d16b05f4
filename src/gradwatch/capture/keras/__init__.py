"""Captures the tensors of Keras's own training loop, `fit`, and of single batches."""

from gradwatch.capture.keras.fit_capture import FitCapture
from gradwatch.capture.keras.replica_refusal import refusal
from gradwatch.capture.keras.single_batch import differentiate

__all__ = ["FitCapture", "differentiate", "refusal"]
