"""Tensors to packed summaries and histogram cells, on the device; one module per framework."""

from gradwatch.measure.framework import (
    Fetched,
    Framework,
    family,
    framework,
    import_before_tracing,
)

__all__ = ["Fetched", "Framework", "family", "framework", "import_before_tracing"]
