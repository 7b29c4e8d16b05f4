"""Tiny environments: policies, values, imitation and models of the world, in torch loops."""

from . import imitation, policies, values, worlds

__all__ = ["imitation", "policies", "values", "worlds"]
