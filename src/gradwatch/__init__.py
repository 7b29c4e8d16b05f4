"""gradwatch: see the true gradients, weights and biases of a network while it trains."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gradwatch.capture.inventory import sites
from gradwatch.core import schedule, select
from gradwatch.core.histogram import Histogram
from gradwatch.core.reading import Reading
from gradwatch.core.sites import Kind, Site, SiteInfo
from gradwatch.core.summary import Summary
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
from gradwatch.record.monitor import Monitor
from gradwatch.record.watch_module import watch
from gradwatch.sinks import CSV, PNG, Console, Sink, Store, TensorBoard, Totals
from gradwatch.util.reporter import GradwatchWarning
from gradwatch.watches.budget import Cost
from gradwatch.watches.watch import (
    applied_gradients,
    gradients,
    output_gradients,
    outputs,
    pictures,
    spectral_norms,
    updates,
    weights,
)

if TYPE_CHECKING:
    from gradwatch.read.across_ranks import RankSeries
    from gradwatch.read.comparison import Comparison, compare
    from gradwatch.read.heatmap import Heatmap
    from gradwatch.read.members import NotRecordedError
    from gradwatch.maintain.repair_run import repair
    from gradwatch.read.run import Run
    from gradwatch.read.runs import Runs, open
    from gradwatch.maintain.verify_run import verify
    from gradwatch.store.remote.address import Remote
    from gradwatch.maintain.upload_run import upload
    from gradwatch.store.remote.listing import segment_files
    from gradwatch.view.report.make import report

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
