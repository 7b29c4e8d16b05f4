"""Notebook displays of runs, comparisons and inspections, and their plots."""

from gradwatch.view.notebook.comparison_html import comparison_html, heatmap_html
from gradwatch.view.notebook.heatmap_plot import plot_comparison, plot_heatmap
from gradwatch.view.notebook.inspection import inspection_html
from gradwatch.view.notebook.run_html import run_html, runs_html
from gradwatch.view.notebook.run_plots import RunPlots

__all__ = [
    "RunPlots",
    "comparison_html",
    "heatmap_html",
    "inspection_html",
    "plot_comparison",
    "plot_heatmap",
    "run_html",
    "runs_html",
]
