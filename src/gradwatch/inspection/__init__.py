"""Looking at the gradients of one batch."""

from gradwatch.inspection.inspect import inspect
from gradwatch.inspection.inspected import InspectedGradient, Inspection
from gradwatch.inspection.table_text import HEADER, LEFT, cells, remarks, title

__all__ = [
    "HEADER",
    "LEFT",
    "InspectedGradient",
    "Inspection",
    "cells",
    "inspect",
    "remarks",
    "title",
]
