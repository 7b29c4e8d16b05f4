"""Which site of another run is the counterpart of a site."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gradwatch.core import Kind, Site, SiteInfo
from gradwatch.read.layer_alignment import MatchedBy, align
from gradwatch.read.layer_names import named_layers
from gradwatch.read.run import Run
from gradwatch.read.run_json import layer_classes

_OF_LAYERS = ("variable", "layer")


@dataclass(frozen=True)
class Counterpart:
    """The site of another run that is the same, and what says so."""

    site: Site
    by: MatchedBy


def counterparts(first: Run, other: Run, kind: Kind) -> dict[Site, Counterpart]:
    """By site of a kind of the first run, its counterpart in the other, if it has one.

    Layers are matched first, from all that is known of them: so a layer has the same counterpart
    whatever is compared.
    """
    ours = [info for info in first.infos if info.kind is kind]
    theirs = [info for info in other.infos if info.kind is kind]
    if kind.owner not in _OF_LAYERS:
        return _numbers_or_batches(ours, theirs)
    pairs = align(
        *(
            named_layers((i for i in run.infos if _has_layer(i)), layer_classes(run.facts))
            for run in (first, other)
        )
    )
    by_layer = _by_layer(theirs)
    found: dict[Site, Counterpart] = {}
    for layer, own in _by_layer(ours).items():
        if layer in pairs:
            path, by = pairs[layer]
            found |= _in_layer(own, by_layer.get(path, {}), by)
    return found


def common_counterparts(
    sites: Iterable[Site], matches: Sequence[Mapping[Site, Counterpart]]
) -> dict[Site, tuple[tuple[Site, ...], MatchedBy]]:
    """The sites with a counterpart in every other run: these, and the weakest of what says so."""
    order = list(MatchedBy)
    found = {}
    for site in sites:
        if all(site in match for match in matches):
            own = [match[site] for match in matches]
            weakest = max((each.by for each in own), key=order.index, default=MatchedBy.PATH)
            found[site] = tuple(each.site for each in own), weakest
    return found


def _has_layer(info: SiteInfo) -> bool:
    return info.kind.owner in _OF_LAYERS


def _by_layer(infos: Iterable[SiteInfo]) -> dict[str, dict[str, SiteInfo]]:
    """By layer, and by what follows it in the path: `/kernel`, `/kernel[forget]`, `@2:0`."""
    layers: dict[str, dict[str, SiteInfo]] = {}
    for info in infos:
        layer = info.site.layer
        layers.setdefault(layer, {})[info.path.removeprefix(layer)] = info
    return layers


def _in_layer(
    ours: Mapping[str, SiteInfo], theirs: Mapping[str, SiteInfo], by: MatchedBy
) -> dict[Site, Counterpart]:
    found = {ours[part].site: Counterpart(theirs[part].site, by) for part in ours if part in theirs}
    # A kernel is a weight elsewhere, and transposed.
    waiting = [i for part, i in theirs.items() if part not in ours and not i.site.is_slice]
    for part, info in ours.items():
        if part in theirs or info.site.is_slice:
            continue
        same = next((each for each in waiting if _fits(info, each)), None)
        if same is not None:
            waiting.remove(same)
            found[info.site] = Counterpart(same.site, MatchedBy.SHAPE)
    return found


def _fits(a: SiteInfo, b: SiteInfo) -> bool:
    ours, theirs = (sorted(size for size in i.shape if size is not None) for i in (a, b))
    return bool(ours) and ours == theirs


def _numbers_or_batches(
    ours: Sequence[SiteInfo], theirs: Sequence[SiteInfo]
) -> dict[Site, Counterpart]:
    known = {info.site for info in theirs}
    found = {i.site: Counterpart(i.site, MatchedBy.PATH) for i in ours if i.site in known}
    is_only = len(ours) == len(theirs) == 1 and ours[0].kind is Kind.LOSS
    is_batch = len(ours) == len(theirs) and all(info.kind.is_of_batch for info in ours)
    if not found and (is_only or is_batch):
        return {
            a.site: Counterpart(b.site, MatchedBy.SHAPE) for a, b in zip(ours, theirs, strict=True)
        }
    return found
