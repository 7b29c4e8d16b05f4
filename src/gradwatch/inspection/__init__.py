"""Looking at the gradients of one batch."""

from gradwatch.inspection.inspect import inspect
from gradwatch.inspection.inspected import Entry, Inspection
from gradwatch.inspection.table_text import HEADER, LEFT, cells, remarks, title

__all__ = ["HEADER", "LEFT", "Entry", "Inspection", "cells", "inspect", "remarks", "title"]
