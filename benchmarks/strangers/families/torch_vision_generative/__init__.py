"""Networks on images, and networks that make samples, in torch loops."""

from . import adversaries, latent, views, vision

__all__ = ["adversaries", "latent", "views", "vision"]
