"""What measuring costs, and how often it may be done for it."""

from gradwatch.watches.budget.cost import Cost, in_words
from gradwatch.watches.budget.pacer import GAP, START, Pacer

__all__ = ["GAP", "START", "Cost", "Pacer", "in_words"]
