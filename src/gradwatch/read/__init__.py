"""Reading runs: the only way from a run's files to its numbers."""

from gradwatch.read.across_ranks import RankSeries, RankTable
from gradwatch.read.catalog import Catalog, Segment, Writer
from gradwatch.read.comparison import Comparison, compare
from gradwatch.read.database import Database, QueryError
from gradwatch.read.export_table import export_table
from gradwatch.read.grid import Bucketing
from gradwatch.read.heatmap import Heatmap, by_width
from gradwatch.read.members import NotRecordedError, kind_of
from gradwatch.read.merged_rows import Rows
from gradwatch.read.moments import MomentCache
from gradwatch.read.rank_choice import ALL, RankChoice, checked
from gradwatch.read.row_tables import RowTable
from gradwatch.read.run import EVER, Run, Steps, within
from gradwatch.read.run_json import bare_info
from gradwatch.read.runs import Runs, open
from gradwatch.read.snapshot import Snapshot, Tail
from gradwatch.read.status import RankStatus, Status, is_live
from gradwatch.read.views import literal, parquet, quoted

__all__ = [
    "ALL",
    "EVER",
    "Bucketing",
    "Catalog",
    "Comparison",
    "Database",
    "Heatmap",
    "MomentCache",
    "NotRecordedError",
    "QueryError",
    "RankChoice",
    "RankSeries",
    "RankStatus",
    "RankTable",
    "RowTable",
    "Rows",
    "Run",
    "Runs",
    "Segment",
    "Snapshot",
    "Status",
    "Steps",
    "Tail",
    "Writer",
    "bare_info",
    "by_width",
    "checked",
    "compare",
    "export_table",
    "is_live",
    "kind_of",
    "literal",
    "open",
    "parquet",
    "quoted",
    "within",
]
