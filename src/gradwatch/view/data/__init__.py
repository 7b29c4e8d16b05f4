"""The data of all views. `Answer`s are the JSON that `viewer/src/api/types.ts` describes."""

from gradwatch.view.data.cell_grid import CellGrid, comparison_grid, heatmap_grid
from gradwatch.view.data.colour_scale import LEVELS, NOT_FINITE
from gradwatch.view.data.distribution import distribution, picture, pictures
from gradwatch.view.data.entries import broken_entry, entry, unknown_entry
from gradwatch.view.data.heatmap_data import heatmap, tree
from gradwatch.view.data.layer_grid import layer_grid
from gradwatch.view.data.numbers import numbers
from gradwatch.view.data.overview import overview
from gradwatch.view.data.plain import Answer
from gradwatch.view.data.quantity import quantity
from gradwatch.view.data.rank_data import ranks
from gradwatch.view.data.run_view import FIRST, RunView, StaleTreeError, Window
from gradwatch.view.data.selection import selection
from gradwatch.view.data.series_data import series
from gradwatch.view.data.side_by_side import compare, compare_series

__all__ = [
    "FIRST",
    "LEVELS",
    "NOT_FINITE",
    "Answer",
    "CellGrid",
    "RunView",
    "StaleTreeError",
    "Window",
    "broken_entry",
    "compare",
    "compare_series",
    "comparison_grid",
    "distribution",
    "entry",
    "heatmap",
    "heatmap_grid",
    "layer_grid",
    "numbers",
    "overview",
    "picture",
    "pictures",
    "quantity",
    "ranks",
    "selection",
    "series",
    "tree",
    "unknown_entry",
]
