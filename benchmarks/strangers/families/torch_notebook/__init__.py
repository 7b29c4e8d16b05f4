"""What people try in a notebook, in torch loops; written without knowing the rules."""

from . import embeddings, generative, sequences, tables, vision

__all__ = ["embeddings", "generative", "sequences", "tables", "vision"]
