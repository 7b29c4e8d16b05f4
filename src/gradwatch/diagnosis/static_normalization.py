"""Normalizations that cannot work as they are used."""

import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from gradwatch.core import Kind, LayerFacts, ModelFacts
from gradwatch.diagnosis.finding import Severity, Symptom
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.losses import Losses
from gradwatch.diagnosis.network_order import enumerate_layers
from gradwatch.diagnosis.static_words import about_severity, since_severity
from gradwatch.diagnosis.validation import generalisation

_LAG, _STEPS = 0.9, 50
"""The share of a normalization's initial statistics that is left after at least so many steps."""
_NORMALIZES = re.compile(r"^(Layer|Group|Instance)\w*Norm")
_SCALE, _CLEAR, _NOTHING = 0.1, 1e-2, 1e-3
"""The weights of a normalization that scales; the range of what it is given, and the size of what
it returns: that it is 0 but for rounding."""


def _inferring_normalization(
    history: History, facts: ModelFacts, is_flat: bool
) -> Iterator[Symptom]:
    inferring = [layer for layer in facts.layers if layer.is_inferring and layer.is_fresh]
    if inferring:
        severity = Severity.WARNING if is_flat else Severity.INFO
        if _has_jumped(history.losses):
            severity = Severity.ERROR
        yield Symptom(
            f"No normalization by {enumerate_layers([layer.path for layer in inferring])}: in "
            "inference mode, statistics are used that were never computed.",
            {"layers": len(inferring)},
            layer=inferring[0].path,
            since=since_severity(history, severity),
            severity=severity,
            remedy="Call model.train() before training; in Keras, leave training=False and "
            "trainable=False to layers that are pretrained.",
            about=about_severity("inference", severity),
        )


def _lagging_statistics(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    lagging = [
        layer
        for layer in facts.layers
        if layer.is_fresh and layer.momentum and layer.momentum**history.step > _LAG
    ]
    if not lagging or not history.has_ended or history.step < _STEPS or history.first_step > 1:
        return
    first, held = lagging[0], generalisation(history, facts)
    left = (first.momentum or 0.0) ** history.step
    yield Symptom(
        f"Inference normalizes with other statistics than training, by "
        f"{enumerate_layers([layer.path for layer in lagging])}: {left:.0%} of what is used there "
        "is still the initial value.",
        {"momentum": first.momentum or 0.0, "steps": history.step},
        layer=first.path,
        since=history.first_step,
        severity=Severity.INFO if held is not None and held.is_good else Severity.WARNING,
        remedy="Lower the momentum of the normalization: 0.9 for short trainings, 0.99 for others.",
        about="lag",
    )


def _normalization_of_one_sample(
    history: History, facts: ModelFacts, is_flat: bool
) -> Iterator[Symptom]:
    sizes = history.numbers.get("batch_size", ())
    norms = [layer for layer in facts.layers if _is_batch_normalization(layer)]
    # Of images, each sample has many elements per channel.
    if not norms or not sizes or len(sizes) > 1 or sizes[0][1] != 1 or not is_flat:
        return
    yield Symptom(
        "Batch normalization of a single sample removes what distinguishes it from others.",
        {"batch size": 1},
        layer=norms[0].path,
        since=history.step,
        severity=Severity.WARNING,
        remedy="Use larger batches, or LayerNormalization.",
        about="one sample",
    )


def _normalization_of_single_values(
    history: History, facts: ModelFacts, is_flat: bool
) -> Iterator[Symptom]:
    """What is left of a value that is normalized by itself is 0, whatever it is."""
    table = history[Kind.OUTPUT]
    layer = table.cached_per_sites(
        "single values", lambda: _first_to_return_nothing(history, facts)
    )
    if layer:
        yield Symptom(
            f"{layer} normalizes single values, each by its own mean: nothing is left of them.",
            {"measured steps": table.measured},
            layer=layer,
            since=history.first_step,
            severity=Severity.ERROR,
            remedy="Normalize over an axis of several values: check the axis, and how many "
            "channels a group has.",
            about="single values",
        )


def _first_to_return_nothing(history: History, facts: ModelFacts) -> str:
    """The first normalization that returned 0 at the start, although it was given other values.

    Later, its biases may have moved.
    """
    table = history[Kind.OUTPUT]
    if not len(table) or table.has_forgotten or not facts.layers:
        return ""
    low, high = table.statistic("min", len(table))[0], table.statistic("max", len(table))[0]
    ends = {site.layer: (low[i], high[i]) for i, site in enumerate(table.sites)}
    scales = history[Kind.WEIGHT]
    sizes = scales.statistic("linf", len(scales))[0] if len(scales) else np.empty(0)
    scaled = {site.layer for site in scales.sites_where(sizes > _SCALE)}
    before: tuple[float, float] | None = None
    for layer in facts.layers:
        now = ends.get(layer.path)
        if now is None or not np.isfinite(now).all():
            continue
        is_norm = _NORMALIZES.search(layer.class_name or "") is not None and not layer.is_inferring
        if is_norm and layer.path in scaled and before is not None:
            spread = before[1] - before[0]
            if spread > _CLEAR and max(-now[0], now[1]) < _NOTHING:
                return layer.path
        before = now
    return ""


def _has_jumped(losses: Losses) -> bool:
    """Whether the last two losses are far above the first one, or not even finite."""
    if len(losses) < 3 or not losses.values[0] > 0:
        return False
    return not np.any(losses.last(2) < 2.0 * losses.values[0])


def _is_batch_normalization(layer: LayerFacts) -> bool:
    name = layer.class_name or ""
    return name.startswith(("BatchNorm", "SyncBatchNorm")) and not layer.is_inferring


NORMALIZATION_CHECKS: Sequence[Callable[[History, ModelFacts, bool], Iterator[Symptom]]] = (
    _inferring_normalization,
    _lagging_statistics,
    _normalization_of_one_sample,
    _normalization_of_single_values,
)
