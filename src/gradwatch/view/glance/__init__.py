"""A run at a glance: the few numbers, words and small bars that terminals and pages share."""

from gradwatch.view.glance.json_text import dumps, plain
from gradwatch.view.glance.layer_rows import gradient_kind, without_root
from gradwatch.view.glance.layer_table import layer_columns
from gradwatch.view.glance.rank_words import has_stopped, ranks_in_words
from gradwatch.view.glance.standing import Watcher
from gradwatch.view.glance.text_columns import GAP, Column, fitted, padded
from gradwatch.view.glance.words import bytes_, compact, counted, duration, percent

__all__ = [
    "GAP",
    "Column",
    "Watcher",
    "bytes_",
    "compact",
    "counted",
    "dumps",
    "duration",
    "fitted",
    "gradient_kind",
    "has_stopped",
    "layer_columns",
    "padded",
    "percent",
    "plain",
    "ranks_in_words",
    "without_root",
]
