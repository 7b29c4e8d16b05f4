"""gradwatch: see the true gradients, weights and biases of a network while it trains."""

from gradwatch import schedule, select
from gradwatch.histogram import Histogram
from gradwatch.inspection import Inspection, inspect
from gradwatch.inventory import sites
from gradwatch.monitor import Monitor
from gradwatch.reading import Reading
from gradwatch.sinks import CSV, PNG, Console, Sink, TensorBoard, Totals
from gradwatch.sites import Kind, Site, SiteInfo
from gradwatch.summary import Summary
from gradwatch.warning import GradwatchWarning
from gradwatch.watches import (
    applied_gradients,
    gradients,
    output_gradients,
    outputs,
    pictures,
    spectral_norms,
    updates,
    weights,
)
from gradwatch.watching import watch

__version__ = "0.1.0"

__all__ = [
    "CSV",
    "PNG",
    "Console",
    "GradwatchWarning",
    "Histogram",
    "Inspection",
    "Kind",
    "Monitor",
    "Reading",
    "Sink",
    "Site",
    "SiteInfo",
    "Summary",
    "TensorBoard",
    "Totals",
    "applied_gradients",
    "gradients",
    "inspect",
    "output_gradients",
    "outputs",
    "pictures",
    "schedule",
    "select",
    "sites",
    "spectral_norms",
    "updates",
    "watch",
    "weights",
]
