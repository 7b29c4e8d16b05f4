"""Codes, embeddings and what is tuned on top of them, in torch loops."""

from . import codes, metric, pairs, tuned

__all__ = ["codes", "metric", "pairs", "tuned"]
