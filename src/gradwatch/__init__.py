"""gradwatch: see the true gradients, weights and biases of a network while it trains."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gradwatch import schedule, select
from gradwatch.budget import Cost
from gradwatch.diagnose import (
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
from gradwatch.histogram import Histogram
from gradwatch.inspection import Inspection, inspect
from gradwatch.inventory import sites
from gradwatch.monitor import Monitor
from gradwatch.reading import Reading
from gradwatch.sinks import CSV, PNG, Console, Sink, Store, TensorBoard, Totals
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

if TYPE_CHECKING:
    from gradwatch.store.reader.across_ranks import RankSeries
    from gradwatch.store.reader.compare import Comparison, compare
    from gradwatch.store.reader.heatmap import Heatmap
    from gradwatch.store.reader.members import NotRecordedError
    from gradwatch.store.reader.repair import repair
    from gradwatch.store.reader.run import Run
    from gradwatch.store.reader.runs import Runs, open
    from gradwatch.store.reader.verify import verify
    from gradwatch.store.remote.address import Remote
    from gradwatch.store.remote.completing import upload
    from gradwatch.store.remote.listing import segment_files
    from gradwatch.view.report.make import report

__version__ = "0.1.0"

# What reads runs is imported when it is first asked for: a training script need not wait for it.
_LATER = {
    "Comparison": "store.reader.compare",
    "Heatmap": "store.reader.heatmap",
    "NotRecordedError": "store.reader.members",
    "RankSeries": "store.reader.across_ranks",
    "Remote": "store.remote.address",
    "Run": "store.reader.run",
    "Runs": "store.reader.runs",
    "compare": "store.reader.compare",
    "open": "store.reader.runs",
    "repair": "store.reader.repair",
    "report": "view.report.make",
    "segment_files": "store.remote.listing",
    "upload": "store.remote.completing",
    "verify": "store.reader.verify",
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
