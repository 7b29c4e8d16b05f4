"""Which layers to look at first, and why."""

from collections.abc import Iterator, Sequence

from gradwatch.core import Kind, Site
from gradwatch.view.data import Answer

MAX_LAYERS = 12


def worst_layers(
    layers: Sequence[Answer], findings: Sequence[Answer], max_layers: int
) -> dict[str, str]:
    """The layers to look at first, the worst first, and why.

    First the layers in findings, then layers with NaN or infinite elements, then layers with
    a gradient of 0, then the extremes that every network has. `layers` are in network order,
    as in `all_layer_rows`; `findings` as in `Finding.facts`, the worst first.
    """
    known = {layer["layer"] for layer in layers}
    found: dict[str, dict[str, None]] = {}
    for name, reason in _reasons(layers, findings):
        # A part of a layer, such as the cell of an LSTM, is in the row of the layer.
        while name and name not in known:
            name = name.rpartition("/")[0]
        if name:
            found.setdefault(name, {})[reason] = None
    return {name: ", ".join(reasons) for name, reasons in list(found.items())[:max_layers]}


def _reasons(layers: Sequence[Answer], findings: Sequence[Answer]) -> Iterator[tuple[str, str]]:
    for finding in findings:
        if finding["severity"] != "info":
            sites = [Site(Kind(kind), path) for kind, path in finding["sites"]]
            names = (finding["layer"], *(site.layer for site in sites))
            yield from ((name, finding["rule"]) for name in names if name)
    yield from ((layer["layer"], "NaN or Inf") for layer in layers if layer["nonfinite"])
    for layer in layers:
        if layer["gradient_zero_share"] == 1.0:
            yield layer["layer"], "gradient is 0"
    for column, label in (("gradient_l2", "gradient"), ("update_ratio", "update / weight")):
        known = {each["layer"]: each[column] for each in layers if (each[column] or 0.0) > 0.0}
        if len(known) > 1:
            yield max(known, key=lambda name: known[name]), f"largest {label}"
            yield min(known, key=lambda name: known[name]), f"smallest {label}"
