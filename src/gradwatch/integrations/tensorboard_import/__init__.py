"""Imports TensorBoard event files into a run."""

from gradwatch.integrations.tensorboard_import.import_run import (
    ImportReport,
    event_files,
    import_tensorboard,
)

__all__ = ["ImportReport", "event_files", "import_tensorboard"]
