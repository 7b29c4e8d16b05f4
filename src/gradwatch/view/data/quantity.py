"""Labels of plotted quantities."""

from typing import NamedTuple

from gradwatch.core import Kind
from gradwatch.view.data.labels import menu_of


class Quantity(NamedTuple):
    """The label of a statistic, with its unit, and its scale: `"log"`, `"signed"` or `"linear"`."""

    label: str
    scale: str


def quantity(kind: Kind, statistic: str) -> Quantity:
    """The label and the scale of a statistic of a kind."""
    for about in menu_of(kind, with_ratio=True):
        if about["name"] == statistic:
            unit = f" ({about['unit']})" if about["unit"] else ""
            return Quantity(f"{kind.label}, {about['label']}{unit}", about["scale"])
    name = kind.label if statistic == "value" else f"{kind.label}, {statistic}"
    return Quantity(name, "signed")
