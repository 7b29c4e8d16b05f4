"""Reading runs: the only way from a run's files to its numbers."""
