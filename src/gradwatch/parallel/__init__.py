"""Several processes or devices: ranks, agreement on steps, heartbeats."""

from gradwatch.parallel.heartbeat import MEANING, SignsOfLife
from gradwatch.parallel.ranks import Rank, training

__all__ = ["MEANING", "Rank", "SignsOfLife", "training"]
