"""All sites of a model that can be watched."""

import sys
from typing import Any

from gradwatch.core import Kind, SiteInfo


class SiteList(list[SiteInfo]):
    """A list of sites that shows itself as a table."""

    def __repr__(self) -> str:
        header = ("kind", "path", "shape", "dtype", "parameters")
        rows = [(str(i.kind), i.path, str(i.shape), i.dtype, f"{i.parameters:,}") for i in self]
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
            for row in (header, *rows)
        ]
        return "\n".join(lines)


def sites(model: Any) -> SiteList:
    """Every site of a model that a monitor could watch, in network order.

    Args:
        model: a Keras model, or layer, whose variables exist.

    Returns:
        A list of `SiteInfo` (kind, path, shape, dtype, parameters, ...) that
        prints as a table.

    Raises:
        TypeError: `model` is not a Keras model.
        ValueError: the model has no variables yet.

    Example:

    >>> import os; _ = os.environ.setdefault("KERAS_BACKEND", "jax")
    >>> import keras, gradwatch
    >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, name="a")], name="net")
    >>> [i.path for i in gradwatch.sites(model) if i.kind is gradwatch.Kind.GRADIENT]
    ['net/a/kernel', 'net/a/bias']
    """
    keras = sys.modules.get("keras")
    if keras is None or not isinstance(model, keras.Layer):
        raise TypeError(f"sites() takes a Keras model. Received: {type(model).__name__}")
    from gradwatch.capture.keras.layers import output_sites_of
    from gradwatch.capture.keras.variables import sites_of

    found = SiteList(sites_of(model))
    if found:
        watched = (Kind.OUTPUT, Kind.OUTPUT_GRADIENT)
        found += [info for info in output_sites_of(model) if info.kind in watched]
    if not found:
        raise ValueError(
            f"The model {model.name!r} has no variables yet. "
            "Build it (model.build(input_shape)) or call it on a batch first."
        )
    return found
