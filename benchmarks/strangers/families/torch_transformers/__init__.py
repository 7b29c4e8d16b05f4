"""Small transformers in torch loops: language models, encoders, images in patches, adapters."""

from . import encoders, language, patches, tuned

__all__ = ["encoders", "language", "patches", "tuned"]
