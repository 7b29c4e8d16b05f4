"""Capturing the tensors of Keras's own training loop, `fit`."""
