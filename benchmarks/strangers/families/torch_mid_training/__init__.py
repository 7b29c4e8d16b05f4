"""Torch loops in which something happens on the way: on purpose, or by mistake."""

from . import classes, series

__all__ = ["classes", "series"]
