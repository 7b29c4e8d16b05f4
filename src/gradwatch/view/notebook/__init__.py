"""How runs and the like display themselves in notebooks, and their plots."""

from gradwatch.view.notebook.comparison_html import comparison_html, heatmap_html
from gradwatch.view.notebook.inspection import inspection_html
from gradwatch.view.notebook.plots.comparison_plot import plot_comparison
from gradwatch.view.notebook.plots.run_plots import RunPlots, plot_heatmap
from gradwatch.view.notebook.run_html import run_html, runs_html

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
