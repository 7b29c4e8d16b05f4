"""Keras's `fit` in which something happens on the way: on purpose, or by mistake."""

from . import classes, values

__all__ = ["classes", "values"]
