"""Runs in words, small bars and tables of text, for terminals and Markdown."""

from gradwatch.view.text.layer_table import layer_columns
from gradwatch.view.text.number_names import number_names
from gradwatch.view.text.rank_words import (
    has_stopped,
    rank_cells,
    rank_counts,
    ranks_in_words,
)
from gradwatch.view.text.sparkline import sparkline, trend_bars

__all__ = [
    "has_stopped",
    "layer_columns",
    "number_names",
    "rank_cells",
    "rank_counts",
    "ranks_in_words",
    "sparkline",
    "trend_bars",
]
