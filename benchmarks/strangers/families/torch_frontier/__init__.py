"""Torch loops as they are written today: flows, preferences, two towers, inner loops, recipes."""

from . import agents, few, flows, pairs, recipes, sequences

__all__ = ["agents", "few", "flows", "pairs", "recipes", "sequences"]
