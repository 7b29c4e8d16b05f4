"""Physics, graphs, series and measurements: torch loops as scientists write them."""

from . import graphs, likelihoods, physics, series

__all__ = ["graphs", "likelihoods", "physics", "series"]
