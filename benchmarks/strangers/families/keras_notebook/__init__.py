"""What people try in a notebook, in Keras; written without knowing the rules."""

from . import models, pictures, tables

__all__ = ["models", "pictures", "tables"]
