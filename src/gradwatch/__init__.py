"""gradwatch: see the true gradients, weights and biases of a network while it trains."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gradwatch.capture import residual, router, sites, tap, with_taps
from gradwatch.core import Histogram, Kind, Reading, Site, Summary, schedule, select
from gradwatch.diagnosis import Finding, diagnose, silence
from gradwatch.inspection import coordinate_check, inspect
from gradwatch.record import Monitor, watch
from gradwatch.sinks import CSV, PNG, Console, Sink, Store, TensorBoard, Totals
from gradwatch.util import GradwatchWarning, did_you_mean, display
from gradwatch.watches import (
    Watch,
    applied_gradients,
    attention,
    gradients,
    logits,
    losses,
    optimizer_state,
    output_gradients,
    outputs,
    pictures,
    residuals,
    scalars,
    spectral_norms,
    updates,
    weights,
)

if TYPE_CHECKING:
    from gradwatch import maintain as maintain
    from gradwatch import read as read
    from gradwatch import view as view
    from gradwatch.integrations.forwarding import Forward
    from gradwatch.read import compare, noise_scale, open
    from gradwatch.view.report import report

__version__ = "0.1.0"

# Imported on first use: a training script need not wait for what reads runs.
_LAZY_ROOMS = ("integrations", "maintain", "read", "testing", "view")
_LAZY_NAMES = {
    "Forward": "integrations.forwarding",
    "compare": "read",
    "noise_scale": "read",
    "open": "read",
    "report": "view.report",
}


display.use(lambda: import_module("gradwatch.view.notebook"))


def __getattr__(name: str) -> Any:
    if name in _LAZY_ROOMS:
        return import_module(f"gradwatch.{name}")
    if name not in _LAZY_NAMES:
        hint = did_you_mean(name, __all__).strip()
        raise AttributeError(f"module 'gradwatch' has no attribute {name!r}. {hint}".strip())
    value = getattr(import_module(f"gradwatch.{_LAZY_NAMES[name]}"), name)
    globals()[name] = value
    return value


__all__ = [
    "CSV",
    "PNG",
    "Console",
    "Finding",
    "Forward",
    "GradwatchWarning",
    "Histogram",
    "Kind",
    "Monitor",
    "Reading",
    "Sink",
    "Site",
    "Store",
    "Summary",
    "TensorBoard",
    "Totals",
    "Watch",
    "applied_gradients",
    "attention",
    "compare",
    "coordinate_check",
    "diagnose",
    "gradients",
    "inspect",
    "logits",
    "losses",
    "noise_scale",
    "open",
    "optimizer_state",
    "output_gradients",
    "outputs",
    "pictures",
    "report",
    "residual",
    "residuals",
    "router",
    "scalars",
    "schedule",
    "select",
    "silence",
    "sites",
    "spectral_norms",
    "tap",
    "updates",
    "watch",
    "weights",
    "with_taps",
]
