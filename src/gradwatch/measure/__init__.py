"""Tensors to packed summaries and histogram cells, on the device; one module per framework."""

from gradwatch.measure.framework import Fetched, Framework, family, framework, import_early
from gradwatch.measure.host_work import HostWork

__all__ = ["Fetched", "Framework", "HostWork", "family", "framework", "import_early"]
