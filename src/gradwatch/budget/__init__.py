"""What measuring costs, and how often it may be done for it."""

from gradwatch.budget.cost import Cost
from gradwatch.budget.pacer import Pacer

__all__ = ["Cost", "Pacer"]
