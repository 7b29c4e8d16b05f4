"""Getting hold of the real tensors of a training step."""

from gradwatch.capture.guard import guarded
from gradwatch.capture.inventory import sites

__all__ = ["guarded", "sites"]
