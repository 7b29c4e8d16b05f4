"""Keras as in questions to forums and in tutorials for beginners; mostly small tables."""

from . import everyday, images, numbers, sequences, tables

__all__ = ["everyday", "images", "numbers", "sequences", "tables"]
