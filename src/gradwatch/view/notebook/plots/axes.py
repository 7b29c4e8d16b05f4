"""Axes to draw on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Values = NDArray[np.float64]
NOT_FINITE = "#ff00c8"


def pyplot() -> Any:
    """`matplotlib.pyplot`.

    Raises:
        ImportError: matplotlib is not installed; says how to.
    """
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "Plots need matplotlib. Install it with: pip install 'gradwatch[plot]'"
        ) from error
    return pyplot


def axes_for(ax: Axes | None, width: float = 8.0, height: float = 4.0) -> Axes:
    """The axes given, or those of a new figure of that size in inches."""
    if ax is None:
        _, ax = pyplot().subplots(figsize=(width, height), layout="constrained")
    assert ax is not None
    return ax


def as_text(name: str) -> str:
    """A name that matplotlib takes literally: `$` would begin a formula.

    >>> from gradwatch.view.notebook.plots.axes import as_text
    >>> print(as_text("net/$x$"))
    net/\\$x\\$
    """
    from gradwatch.util import printable, shortened

    return shortened(printable(name), 60).replace("$", r"\$")
