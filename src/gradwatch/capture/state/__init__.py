"""What optimizers hold of each variable, in one form for all of them."""

from gradwatch.capture.state.held_moments import EVERY_KIND, HeldMoments, state_infos

__all__ = ["EVERY_KIND", "HeldMoments", "state_infos"]
