"""Several processes or devices: ranks, agreement on steps, heartbeats."""

from gradwatch.parallel.heartbeat import MEANING, Heartbeat
from gradwatch.parallel.ranks import Rank, training

__all__ = ["MEANING", "Heartbeat", "Rank", "training"]
