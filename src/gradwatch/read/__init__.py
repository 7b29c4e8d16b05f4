"""Reading runs: the only way from a run's files to its numbers."""

from gradwatch.read.catalog import Catalog
from gradwatch.read.chosen_rows import ALL, RankChoice, check_rank
from gradwatch.read.comparable_runs import compare
from gradwatch.read.comparison import Comparison
from gradwatch.read.database import QueryError, count_rows
from gradwatch.read.gradient_noise import NoiseScale, noise_scale
from gradwatch.read.heatmap import Heatmap
from gradwatch.read.layer_alignment import MatchedBy
from gradwatch.read.members import MODEL, NotRecordedError, kind_of, whole_model
from gradwatch.read.open_runs import open
from gradwatch.read.rank_tables import RankSeries, RankTable
from gradwatch.read.row_ends import last_shown
from gradwatch.read.row_groups import RowGroups
from gradwatch.read.row_tables import RowTable
from gradwatch.read.run import Run
from gradwatch.read.run_json import bare_info, read_facts
from gradwatch.read.run_outline import Outline, outline_of, settings_of, tags_and_note
from gradwatch.read.runs import Runs, is_run
from gradwatch.read.site_matching import common_counterparts, counterparts
from gradwatch.read.status import RankStatus, Status, is_live
from gradwatch.read.steps import EVER, Bucketing, Steps, by_width, within
from gradwatch.read.writer_files import Segment, Writer

__all__ = [
    "ALL",
    "EVER",
    "MODEL",
    "Bucketing",
    "Catalog",
    "Comparison",
    "Heatmap",
    "MatchedBy",
    "NoiseScale",
    "NotRecordedError",
    "Outline",
    "QueryError",
    "RankChoice",
    "RankSeries",
    "RankStatus",
    "RankTable",
    "RowGroups",
    "RowTable",
    "Run",
    "Runs",
    "Segment",
    "Status",
    "Steps",
    "Writer",
    "bare_info",
    "by_width",
    "check_rank",
    "common_counterparts",
    "compare",
    "count_rows",
    "counterparts",
    "is_live",
    "is_run",
    "kind_of",
    "last_shown",
    "noise_scale",
    "open",
    "outline_of",
    "read_facts",
    "settings_of",
    "tags_and_note",
    "whole_model",
    "within",
]
