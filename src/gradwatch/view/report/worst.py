"""Which layers to look at first, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gradwatch.core import Kind, Site

Layer = Mapping[str, Any]


def worst_layers(
    layers: Sequence[Layer], findings: Sequence[Mapping[str, Any]], most: int
) -> dict[str, str]:
    """The layers that stand out, the worst first, and what each stands out by.

    First those that findings name, then those with NaN or infinite elements, then those
    whose gradient is 0, and then the extremes that every network has.

    Args:
        layers: as `gradwatch.view.data.layer_rows` returns them, in network order.
        findings: the worst first, as in `Finding.facts`.
        most: how many there may be.

    Example:

    >>> from gradwatch.view.report.worst import worst_layers
    >>> facts = {"nonfinite": 0, "gradient_zero_share": 0.0, "update_ratio": None}
    >>> layers = [{"layer": name, "gradient_l2": l2} | facts for name, l2 in
    ...           (("a", 1.0), ("b", 50.0), ("c", 2.0), ("d", 3e-5))]
    >>> worst_layers(layers, [], 2)
    {'b': 'largest gradient', 'd': 'smallest gradient'}
    """
    known = {layer["layer"] for layer in layers}
    found: dict[str, list[str]] = {}

    def say(name: str, why: str) -> None:
        if name in known and why not in found.setdefault(name, []):
            found[name].append(why)

    for finding in findings:
        if finding["severity"] != "info":
            for name in _layers_of(finding):
                say(name, finding["rule"])
    for layer in layers:
        if layer["nonfinite"]:
            say(layer["layer"], "NaN or Inf")
    for layer in layers:
        if layer["gradient_zero_share"] == 1.0:
            say(layer["layer"], "gradient is 0")
    for why, name in _extremes(layers).items():
        say(name, why)
    return {name: ", ".join(whys) for name, whys in list(found.items())[:most]}


def _layers_of(finding: Mapping[str, Any]) -> list[str]:
    named = [Site(Kind(kind), path).layer for kind, path in finding["sites"]]
    return [name for name in (finding["layer"], *named) if name]


def _extremes(layers: Sequence[Layer]) -> dict[str, str]:
    """By what they are extreme in, the layers that are; none where there are too few to tell."""
    found: dict[str, str] = {}
    pick: Callable[..., Layer]
    for quantity, words in (("gradient_l2", "gradient"), ("update_ratio", "update / weight")):
        own = [layer for layer in layers if (layer[quantity] or 0.0) > 0.0]
        if len(own) > 1:
            for pick, how in ((max, "largest"), (min, "smallest")):
                found[f"{how} {words}"] = pick(own, key=lambda layer: layer[quantity])["layer"]
    return found
