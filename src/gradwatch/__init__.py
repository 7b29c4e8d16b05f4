"""gradwatch: see the true gradients, weights and biases of a network while it trains."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gradwatch.capture import sites
from gradwatch.core import Histogram, Kind, Reading, Site, SiteInfo, Summary, schedule, select
from gradwatch.diagnosis import (
    Diagnosis,
    Finding,
    History,
    ModelFacts,
    Severity,
    Symptom,
    Threshold,
    diagnose,
    rule,
    silence,
)
from gradwatch.inspection import Inspection, inspect
from gradwatch.record import Monitor, watch
from gradwatch.sinks import CSV, PNG, Console, Sink, Store, TensorBoard, Totals
from gradwatch.util import GradwatchWarning, display
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
from gradwatch.watches.budget import Cost

if TYPE_CHECKING:
    from gradwatch.maintain import repair, upload, verify
    from gradwatch.read import (
        Comparison,
        Heatmap,
        NotRecordedError,
        RankSeries,
        Run,
        Runs,
        compare,
        open,
    )
    from gradwatch.store.remote import Remote, segment_files
    from gradwatch.view.report import report

__version__ = "0.1.0"

# What reads runs is imported when it is first asked for: a training script need not wait for it.
_LATER = {
    "Comparison": "read.comparison",
    "Heatmap": "read.heatmap",
    "NotRecordedError": "read.members",
    "RankSeries": "read.across_ranks",
    "Remote": "store.remote.address",
    "Run": "read.run",
    "Runs": "read.runs",
    "compare": "read.comparison",
    "open": "read.runs",
    "repair": "maintain.repair_run",
    "report": "view.report.make",
    "segment_files": "store.remote.listing",
    "upload": "maintain.upload_run",
    "verify": "maintain.verify_run",
}


display.use(lambda: import_module("gradwatch.view.notebook"))


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'gradwatch' has no attribute {name!r}")
    value = getattr(import_module(f"gradwatch.{_LATER[name]}"), name)
    globals()[name] = value
    return value


__all__ = [
    "CSV",
    "PNG",
    "Comparison",
    "Console",
    "Cost",
    "Diagnosis",
    "Finding",
    "GradwatchWarning",
    "Heatmap",
    "Histogram",
    "History",
    "Inspection",
    "Kind",
    "ModelFacts",
    "Monitor",
    "NotRecordedError",
    "RankSeries",
    "Reading",
    "Remote",
    "Run",
    "Runs",
    "Severity",
    "Sink",
    "Site",
    "SiteInfo",
    "Store",
    "Summary",
    "Symptom",
    "TensorBoard",
    "Threshold",
    "Totals",
    "applied_gradients",
    "compare",
    "diagnose",
    "gradients",
    "inspect",
    "open",
    "output_gradients",
    "outputs",
    "pictures",
    "repair",
    "report",
    "rule",
    "schedule",
    "segment_files",
    "select",
    "silence",
    "sites",
    "spectral_norms",
    "updates",
    "upload",
    "verify",
    "watch",
    "weights",
]
