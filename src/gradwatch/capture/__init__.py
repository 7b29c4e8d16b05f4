"""Getting hold of the real tensors of a training step."""

from gradwatch.capture.capture_session import Capture, Source
from gradwatch.capture.guard import guarded
from gradwatch.capture.inventory import sites
from gradwatch.capture.user_taps import residual, router, tap, with_taps

__all__ = ["Capture", "Source", "guarded", "residual", "router", "sites", "tap", "with_taps"]
