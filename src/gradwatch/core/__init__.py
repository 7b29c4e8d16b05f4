"""What everything shares: kinds, sites, statistics, summaries, histograms, readings."""

from gradwatch.core.bins import (
    BINS_A_SIDE,
    CELLS,
    EDGES,
    LOWEST_EXPONENT,
    MANTISSA_BITS,
    NONFINITE,
    ZERO,
)
from gradwatch.core.framework_types import (
    KerasLayer,
    KerasModel,
    KerasOptimizer,
    Tensor,
    TorchModule,
    TorchOptimizer,
    Tree,
)
from gradwatch.core.groups import Grouping
from gradwatch.core.histogram import Histogram
from gradwatch.core.jumps import Jump, Jumps
from gradwatch.core.kind_synonyms import KIND_SYNONYMS
from gradwatch.core.kinds import KINDS, Kind, add_kind
from gradwatch.core.layer_list import LayerList
from gradwatch.core.low_precision import NUMBER_FORMATS, Bounds, CastLoss
from gradwatch.core.model_facts import (
    LayerFacts,
    LossFacts,
    ModelFacts,
    OptimizerFacts,
    ParameterFacts,
)
from gradwatch.core.reading import Reading, SiteFilter, scope, stacked
from gradwatch.core.scalar_names import ADDED_LOSS, UNTRAINED
from gradwatch.core.schedule import Moment, Schedule
from gradwatch.core.select import SelectionError
from gradwatch.core.shown import shown, shown_sql, zero_share
from gradwatch.core.sites import Site, SiteInfo
from gradwatch.core.statistics import (
    STATISTIC_SYNONYMS,
    STATISTICS,
    UPDATE_RATIO,
    VALUE,
    Statistic,
    add_statistic,
    finite,
    l2,
    linf,
    mean,
    rms,
    statistic,
    statistics_of,
)
from gradwatch.core.summary import COUNTS, FIELDS, IDENTITY, Summary, merge
from gradwatch.core.worst_samples import (
    SAMPLE_MEDIAN,
    SAMPLES,
    WorstSample,
    sample_path,
    worst_in,
)

__all__ = [
    "ADDED_LOSS",
    "BINS_A_SIDE",
    "CELLS",
    "COUNTS",
    "EDGES",
    "FIELDS",
    "IDENTITY",
    "KINDS",
    "KIND_SYNONYMS",
    "LOWEST_EXPONENT",
    "MANTISSA_BITS",
    "NONFINITE",
    "NUMBER_FORMATS",
    "SAMPLES",
    "SAMPLE_MEDIAN",
    "STATISTICS",
    "STATISTIC_SYNONYMS",
    "UNTRAINED",
    "UPDATE_RATIO",
    "VALUE",
    "ZERO",
    "Bounds",
    "CastLoss",
    "Grouping",
    "Histogram",
    "Jump",
    "Jumps",
    "KerasLayer",
    "KerasModel",
    "KerasOptimizer",
    "Kind",
    "LayerFacts",
    "LayerList",
    "LossFacts",
    "ModelFacts",
    "Moment",
    "OptimizerFacts",
    "ParameterFacts",
    "Reading",
    "Schedule",
    "SelectionError",
    "Site",
    "SiteFilter",
    "SiteInfo",
    "Statistic",
    "Summary",
    "Tensor",
    "TorchModule",
    "TorchOptimizer",
    "Tree",
    "WorstSample",
    "add_kind",
    "add_statistic",
    "finite",
    "l2",
    "linf",
    "mean",
    "merge",
    "rms",
    "sample_path",
    "scope",
    "shown",
    "shown_sql",
    "stacked",
    "statistic",
    "statistics_of",
    "worst_in",
    "zero_share",
]
