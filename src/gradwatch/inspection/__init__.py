"""Looking at a model: the gradients of one batch, outputs of several widths."""

from gradwatch.inspection.coordinate_check import coordinate_check
from gradwatch.inspection.coordinates import CoordinateCheck, LayerScaling, Slope
from gradwatch.inspection.inspect import inspect
from gradwatch.inspection.inspected import InspectedGradient, Inspection
from gradwatch.inspection.table_text import HEADER, LEFT, cells, remarks, title

__all__ = [
    "HEADER",
    "LEFT",
    "CoordinateCheck",
    "InspectedGradient",
    "Inspection",
    "LayerScaling",
    "Slope",
    "cells",
    "coordinate_check",
    "inspect",
    "remarks",
    "title",
]
