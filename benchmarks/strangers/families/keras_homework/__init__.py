"""Homework and tutorials followed by hand, in Keras; written without knowing the rules."""

from . import pictures, sequences, tables

__all__ = ["pictures", "sequences", "tables"]
