"""Getting hold of the real tensors of a training step."""
