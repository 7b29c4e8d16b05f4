"""Measuring in hand-written training loops, of any framework."""
