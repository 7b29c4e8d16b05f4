"""Capturing the steps of a torch optimizer."""

from gradwatch.capture.torch.global_hooks import add_global_hook

__all__ = ["add_global_hook"]
