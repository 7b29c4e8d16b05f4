"""The layers of a network in its order, with what was measured of each."""

from collections.abc import Iterable

from gradwatch.core.kinds import Kind
from gradwatch.core.sites import Site


class LayerList:
    """Puts layers in network order, as sites come in.

    The sites of one kind are in network order, but no kind has all layers: an activation has no
    variables, and an unused layer no outputs. A layer that only some kinds have stands after the
    one that it follows there.

    >>> from gradwatch import Kind, Site
    >>> from gradwatch.core import LayerList
    >>> layers = LayerList()
    >>> layers.add([Site(Kind.WEIGHT, path) for path in ("conv/kernel", "head/kernel")])
    >>> layers.add([Site(Kind.OUTPUT, path) for path in ("conv", "pool", "head")])
    >>> list(layers.members(layers.sites))
    ['conv', 'pool', 'head']
    """

    def __init__(self, sites: Iterable[Site] = ()) -> None:
        self.sites: dict[Site, None] = {}
        self._following: dict[str | None, str | None] = {None: None}
        self.add(sites)

    def add(self, sites: Iterable[Site]) -> None:
        """Add sites; those of each kind are in network order."""
        previous: dict[Kind, str | None] = {}
        for site in sites:
            layer, before = site.layer, previous.get(site.kind)
            if layer not in self._following:
                self._following[layer] = self._following[before]
                self._following[before] = layer
            previous[site.kind] = layer
            self.sites[site] = None

    def members(self, sites: Iterable[Site]) -> dict[str, list[Site]]:
        """The given ones of the sites by layer, in network order.

        A part of a layer that is not called as a layer, such as the cell of an LSTM, belongs to
        the layer around it.
        """
        found: dict[str, list[Site]] = {}
        layer = self._following[None]
        while layer is not None:
            found[layer] = []
            layer = self._following[layer]
        for site in sites:
            found[site.layer].append(site)
        inner = _parts_of_layers(found)
        for part, whole in inner.items():
            found[whole] += found[part]
        return {name: own for name, own in found.items() if own and name not in inner}


def _parts_of_layers(members: dict[str, list[Site]]) -> dict[str, str]:
    """By layer the layer that it is a part of: the only one with variables in one without."""
    called = {name for name, own in members.items() if any(s.kind.is_of_layer for s in own)}
    owning = {name for name, own in members.items() if any(s.kind.is_of_variable for s in own)}
    parts: dict[str, list[str]] = {}
    for name in owning - called:
        around = name
        while around := around.rpartition("/")[0]:
            if around in called:
                parts.setdefault(around, []).append(name)
                break
    return {own[0]: whole for whole, own in parts.items() if len(own) == 1 and whole not in owning}
