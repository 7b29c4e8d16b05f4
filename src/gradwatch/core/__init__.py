"""The algebra and the addresses: sites, summaries, histograms, readings, selection, schedules."""

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
from gradwatch.core.histogram import (
    BINS_A_SIDE,
    CELLS,
    EDGES,
    LOWEST_EXPONENT,
    MANTISSA_BITS,
    NONFINITE,
    ZERO,
    Histogram,
)
from gradwatch.core.model_facts import LayerFacts, LossFacts, ModelFacts, OptimizerFacts
from gradwatch.core.reading import Less, Reading, scope, stacked
from gradwatch.core.reported_loss import ReportedLoss
from gradwatch.core.sites import Kind, Site, SiteInfo
from gradwatch.core.summary import (
    COUNTS,
    FIELDS,
    IDENTITY,
    STATISTICS,
    Summary,
    finite,
    l2,
    linf,
    mean,
    merge,
    rms,
    statistic,
)

__all__ = [
    "BINS_A_SIDE",
    "CELLS",
    "COUNTS",
    "EDGES",
    "FIELDS",
    "IDENTITY",
    "LOWEST_EXPONENT",
    "MANTISSA_BITS",
    "NONFINITE",
    "STATISTICS",
    "ZERO",
    "Grouping",
    "Histogram",
    "KerasLayer",
    "KerasModel",
    "KerasOptimizer",
    "Kind",
    "LayerFacts",
    "Less",
    "LossFacts",
    "ModelFacts",
    "OptimizerFacts",
    "Reading",
    "ReportedLoss",
    "Site",
    "SiteInfo",
    "Summary",
    "Tensor",
    "TorchModule",
    "TorchOptimizer",
    "Tree",
    "finite",
    "l2",
    "linf",
    "mean",
    "merge",
    "rms",
    "scope",
    "stacked",
    "statistic",
]
