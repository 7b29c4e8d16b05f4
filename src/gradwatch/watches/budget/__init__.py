"""What measuring costs, and how often it may be done for it."""

from gradwatch.watches.budget.cost import Cost
from gradwatch.watches.budget.pacer import Pacer

__all__ = ["Cost", "Pacer"]
