"""Notebook displays of runs, readings, diagnoses, comparisons and inspections; plots; a widget."""

from gradwatch.view.notebook.comparison_html import comparison_html, heatmap_html
from gradwatch.view.notebook.coordinate_plot import plot_coordinates
from gradwatch.view.notebook.heatmap_plot import plot_comparison, plot_heatmap
from gradwatch.view.notebook.inspection import inspection_html
from gradwatch.view.notebook.readings_html import diagnosis_html, readings_html
from gradwatch.view.notebook.run_html import run_html
from gradwatch.view.notebook.run_plots import RunPlots
from gradwatch.view.notebook.runs_html import runs_html
from gradwatch.view.notebook.widget import live_widget, run_widget

__all__ = [
    "RunPlots",
    "comparison_html",
    "diagnosis_html",
    "heatmap_html",
    "inspection_html",
    "live_widget",
    "plot_comparison",
    "plot_coordinates",
    "plot_heatmap",
    "readings_html",
    "run_html",
    "run_widget",
    "runs_html",
]
