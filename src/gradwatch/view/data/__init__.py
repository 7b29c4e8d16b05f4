"""The data of all views. `Answer`s are the JSON that `viewer/src/api/types.ts` describes."""

from gradwatch.view.data.bounded_json import bounded
from gradwatch.view.data.casts import cast_columns, cast_rows
from gradwatch.view.data.cell_grid import CellGrid, comparison_grid, heatmap_grid
from gradwatch.view.data.colour_scale import LEVELS, NOT_FINITE
from gradwatch.view.data.curves import curves
from gradwatch.view.data.distribution import distribution, picture, pictures
from gradwatch.view.data.entries import broken_entry, entry, outline_facts, unknown_entry
from gradwatch.view.data.health import Health, health_of, unreadable
from gradwatch.view.data.heatmap_data import heatmap, tree
from gradwatch.view.data.layer_data import (
    all_layer_rows,
    gradient_kind,
    is_of_network,
)
from gradwatch.view.data.layer_grid import layer_grid
from gradwatch.view.data.numbers import numbers
from gradwatch.view.data.overview import overview
from gradwatch.view.data.plain import Answer
from gradwatch.view.data.quantity import quantity
from gradwatch.view.data.rank_data import ranks
from gradwatch.view.data.run_columns import (
    metric_names,
    metric_text,
    setting_names,
    setting_text,
)
from gradwatch.view.data.run_facts import damage_facts, directory_size, show_data, statistic_data
from gradwatch.view.data.run_progress import ProgressReader, RunProgress
from gradwatch.view.data.run_view import FIRST, RunView, StaleTreeError, Window
from gradwatch.view.data.selection import combined
from gradwatch.view.data.series_data import series
from gradwatch.view.data.side_by_side import compare, compare_series
from gradwatch.view.data.site_queries import shown_series
from gradwatch.view.data.strict_json import jsonable, to_json
from gradwatch.view.data.told_facts import told_facts, told_in_words
from gradwatch.view.data.trend_data import BOOKKEEPING, number_rows, trends

__all__ = [
    "BOOKKEEPING",
    "FIRST",
    "LEVELS",
    "NOT_FINITE",
    "Answer",
    "CellGrid",
    "Health",
    "ProgressReader",
    "RunProgress",
    "RunView",
    "StaleTreeError",
    "Window",
    "all_layer_rows",
    "bounded",
    "broken_entry",
    "cast_columns",
    "cast_rows",
    "combined",
    "compare",
    "compare_series",
    "comparison_grid",
    "curves",
    "damage_facts",
    "directory_size",
    "distribution",
    "entry",
    "gradient_kind",
    "health_of",
    "heatmap",
    "heatmap_grid",
    "is_of_network",
    "jsonable",
    "layer_grid",
    "metric_names",
    "metric_text",
    "number_rows",
    "numbers",
    "outline_facts",
    "overview",
    "picture",
    "pictures",
    "quantity",
    "ranks",
    "series",
    "setting_names",
    "setting_text",
    "show_data",
    "shown_series",
    "statistic_data",
    "to_json",
    "told_facts",
    "told_in_words",
    "tree",
    "trends",
    "unknown_entry",
    "unreadable",
]
