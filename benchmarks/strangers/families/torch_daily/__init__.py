"""What people train in torch on an ordinary day; written without knowing the rules."""

from . import pictures, tables

__all__ = ["pictures", "tables"]
