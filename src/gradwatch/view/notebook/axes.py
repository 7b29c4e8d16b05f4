"""Matplotlib axes, and names on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradwatch.util import printable, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def pyplot() -> Any:
    """`matplotlib.pyplot`; ImportError if matplotlib is not installed."""
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
    """A name that matplotlib shows literally: `$` would begin a formula."""
    return shortened(printable(name), 60).replace("$", r"\$")
