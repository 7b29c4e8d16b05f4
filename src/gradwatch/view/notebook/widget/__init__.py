"""The viewer in a notebook, through the kernel: what `run.widget()` and `monitor.widget()` show."""

from gradwatch.view.notebook.widget.chosen_display import live_widget, run_widget

__all__ = ["live_widget", "run_widget"]
