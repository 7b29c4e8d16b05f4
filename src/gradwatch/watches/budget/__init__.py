"""The cost of measuring, and the interval that keeps it within a budget."""

from gradwatch.watches.budget.cost import Cost, in_words
from gradwatch.watches.budget.floor import START, floor_steps, is_evenly_spread, is_in_floor
from gradwatch.watches.budget.pacer import GAP, Pacer
from gradwatch.watches.budget.thinning import ThinningPacer

__all__ = [
    "GAP",
    "START",
    "Cost",
    "Pacer",
    "ThinningPacer",
    "floor_steps",
    "in_words",
    "is_evenly_spread",
    "is_in_floor",
]
