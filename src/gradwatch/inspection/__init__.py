"""Looking at the gradients of one batch."""

from gradwatch.inspection.inspect import inspect
from gradwatch.inspection.inspected import Entry, Inspection

__all__ = ["Entry", "Inspection", "inspect"]
