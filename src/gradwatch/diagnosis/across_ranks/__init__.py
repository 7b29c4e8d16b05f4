"""Rules that compare the ranks of a run with each other; importing this package declares them."""

from gradwatch.diagnosis.across_ranks import drifting_replicas, non_finite_rank, straggling_rank

__all__ = ["drifting_replicas", "non_finite_rank", "straggling_rank"]
