"""Keras at work: functional models, callbacks, weights of classes and samples, bases at rest."""

from . import pictures, series, tables, texts

__all__ = ["pictures", "series", "tables", "texts"]
