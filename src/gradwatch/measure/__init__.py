"""Tensors to packed summaries, on the device; one module per framework."""
