"""Experiments of researchers in torch loops; written without knowing the rules."""

from . import adapters, agents, dense, generative, graphs, pairs, sequences, trainers

__all__ = ["adapters", "agents", "dense", "generative", "graphs", "pairs", "sequences", "trainers"]
