"""Recording a run: the monitor, its session, the run directory."""

from gradwatch.record.directory import RunDirectory
from gradwatch.record.monitor import Monitor
from gradwatch.record.watch_module import watch

__all__ = ["Monitor", "RunDirectory", "watch"]
