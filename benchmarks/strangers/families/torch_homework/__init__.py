"""Homework and tutorials followed by hand, in torch loops; written without knowing the rules."""

from . import language, pictures, recipes, tables

__all__ = ["language", "pictures", "recipes", "tables"]
