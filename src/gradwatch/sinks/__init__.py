"""Consumers of readings: where the measurements go."""

from gradwatch.sinks.base import RunInfo, Sink
from gradwatch.sinks.console import Console
from gradwatch.sinks.csv import CSV, safe
from gradwatch.sinks.event_records import DamagedBytes, read_records
from gradwatch.sinks.histogram_buckets import buckets
from gradwatch.sinks.outlet import ActiveSink, View
from gradwatch.sinks.pipeline import CLOSING_TIME, Pipeline
from gradwatch.sinks.png_files import PNG
from gradwatch.sinks.scalar_table import ScalarTables
from gradwatch.sinks.scalar_tags import check_statistics
from gradwatch.sinks.store import Store
from gradwatch.sinks.tensorboard import TensorBoard
from gradwatch.sinks.totals import Totals

__all__ = [
    "CLOSING_TIME",
    "CSV",
    "PNG",
    "ActiveSink",
    "Console",
    "DamagedBytes",
    "Pipeline",
    "RunInfo",
    "ScalarTables",
    "Sink",
    "Store",
    "TensorBoard",
    "Totals",
    "View",
    "buckets",
    "check_statistics",
    "read_records",
    "safe",
]
