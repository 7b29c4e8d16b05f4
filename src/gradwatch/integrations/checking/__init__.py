"""Running a training script, without editing it, to see whether it trains."""
