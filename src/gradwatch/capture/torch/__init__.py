"""Capturing the steps of a torch optimizer."""
