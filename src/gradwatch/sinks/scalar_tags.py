"""Which numbers TensorBoard is shown of a reading, and under which tags.

TensorBoard's pages have one section for each text before a tag's first slash, in alphabetical
order: `loss`, `metrics`, `model`, and then `per_layer_...` and `per_tensor_...`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from gradwatch.core import (
    STATISTIC_SYNONYMS,
    STATISTICS,
    UPDATE_RATIO,
    VALUE,
    Kind,
    Reading,
    Site,
)
from gradwatch.util import did_you_mean

Group: TypeAlias = tuple[int, ...]
"""The positions in `Reading.sites` of what is merged."""

ZERO_SHARE = "zero_share"
RATIO_MEANING = "The L2 norm of the variable's update divided by the L2 norm of the variable."
_LEARNING_RATE = "learning_rate"


class TaggedNumber(NamedTuple):
    """A statistic of merged sites; of updates, relative to the weights `per`."""

    tag: str
    about: Kind | str
    """What it is a number of: a kind, or words."""
    statistic: str
    of: Group
    per: Group = ()


def tagged_numbers(reading: Reading, statistics: Sequence[str] | None) -> list[TaggedNumber]:
    """What to show of a reading with these sites.

    Without `statistics` it is one number for each layer and kind, and for the model; shares of
    dead or saturated units for the model only. With them it is each of them for each site, layer,
    named group and the model, too.
    """
    found = list(_single_numbers(reading))
    tensors = [i for i, site in enumerate(reading.sites) if not site.kind.is_number]
    for kind in dict.fromkeys(reading.sites[i].kind for i in tensors):
        own = [i for i in tensors if reading.sites[i].kind is kind]
        if statistics is None:
            found += _few_of(reading, kind, own)
        else:
            found += _all_of(reading, kind, own, statistics)
    return found


def _single_numbers(reading: Reading) -> Iterator[TaggedNumber]:
    """Losses, metrics, the learning rate, and other kinds that are one number."""
    for i, site in enumerate(reading.sites):
        kind, path = site.kind, site.path
        if kind is Kind.LOSS:
            yield TaggedNumber(path, Kind.LOSS, VALUE.name, (i,))
        elif kind is Kind.METRIC:
            yield TaggedNumber(f"metrics/{path}", kind.meaning, VALUE.name, (i,))
        elif kind is Kind.EPOCH_METRIC:
            yield TaggedNumber(f"metrics/epoch_{path}", kind.meaning, VALUE.name, (i,))
        elif kind is Kind.SCALAR:
            # The others are for the diagnosis.
            if path.rpartition("/")[2] == _LEARNING_RATE:
                yield TaggedNumber(f"metrics/{path}", "", VALUE.name, (i,))
        elif kind.is_charted:
            yield TaggedNumber(f"{kind}/{path}", kind.meaning, VALUE.name, (i,))


def _few_of(reading: Reading, kind: Kind, own: Sequence[int]) -> Iterator[TaggedNumber]:
    """One number of a kind for each layer, and for the model."""
    whole = [i for i in own if not reading.sites[i].is_slice]
    if kind.is_of_batch or not whole:
        return
    if kind.shown_as:
        # Shares of units: mostly 0, so that a chart for each layer says nothing.
        name = next(iter(kind.shown_as))
        yield TaggedNumber(f"{reading.scope}/{kind}_{name}", kind, name, tuple(whole))
        return
    weights = _weights_of(reading, whole) if kind is Kind.UPDATE else {}
    for layer, members in _layers(reading, whole).items():
        yield _number("per_layer_", f"/{layer}", kind, members, weights)
    yield _number(f"{reading.scope}/", "", kind, whole, weights)
    yield from _totals(reading, kind, [kind.default_statistic])


def _number(
    start: str, end: str, kind: Kind, members: Sequence[int], weights: dict[int, int]
) -> TaggedNumber:
    """The number to show of a kind: of updates, relative to weights where these are known."""
    changed = [i for i in members if i in weights]
    if changed:
        per = tuple(weights[i] for i in changed)
        name = UPDATE_RATIO.name
        return TaggedNumber(f"{start}{name}{end}", RATIO_MEANING, name, tuple(changed), per)
    name = kind.default_statistic
    return TaggedNumber(f"{start}{kind}_{name}{end}", kind, name, tuple(members))


def _all_of(
    reading: Reading, kind: Kind, own: Sequence[int], statistics: Sequence[str]
) -> Iterator[TaggedNumber]:
    """Statistics of a kind for each site, layer, named group and the model."""
    sites = reading.sites
    for name in statistics:
        for i in own:
            yield TaggedNumber(f"per_tensor_{kind}_{name}/{sites[i].path}", kind, name, (i,))
    for i in own if kind is Kind.OUTPUT else ():
        yield TaggedNumber(f"per_tensor_output_zero_share/{sites[i].path}", kind, ZERO_SHARE, (i,))
    if kind is Kind.UPDATE:
        for i, weight in _weights_of(reading, own).items():
            tag = f"per_tensor_update_ratio/{sites[i].path}"
            yield TaggedNumber(tag, RATIO_MEANING, UPDATE_RATIO.name, (i,), (weight,))
    whole = [i for i in own if not sites[i].is_slice]
    if kind.is_of_batch or not whole:
        return
    for layer, members in _layers(reading, whole).items():
        # The output of a layer that is called once is the layer's already.
        if len(members) > 1 or sites[members[0]].path != layer:
            for name in statistics:
                yield TaggedNumber(f"per_layer_{kind}_{name}/{layer}", kind, name, tuple(members))
    for name in statistics:
        yield TaggedNumber(f"{reading.scope}/{kind}_{name}", kind, name, tuple(whole))
    yield from _totals(reading, kind, statistics)


def _totals(reading: Reading, kind: Kind, statistics: Iterable[str]) -> Iterator[TaggedNumber]:
    """The groups that the user has named."""
    prefix = f"{reading.scope}/" if reading.scope != "model" else ""
    for group, positions in reading.members.items():
        members = tuple(i for i in positions if reading.sites[i].kind is kind)
        for name in statistics if members else ():
            yield TaggedNumber(f"group_{kind}_{name}/{prefix}{group}", kind, name, members)


def _layers(reading: Reading, positions: Sequence[int]) -> dict[str, list[int]]:
    layers: dict[str, list[int]] = {}
    for i in positions:
        layers.setdefault(reading.sites[i].layer, []).append(i)
    return layers


def _weights_of(reading: Reading, updates: Sequence[int]) -> dict[int, int]:
    """The position of the weight of each update that has one."""
    weights = ((i, Site(Kind.WEIGHT, reading.sites[i].path)) for i in updates)
    return {i: reading.position[site] for i, site in weights if site in reading.position}


def check_statistics(statistics: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """The names of statistics, of which "all" stands for all; ValueError for an unknown one."""
    if statistics is None:
        return None
    if statistics == "all":
        return tuple(STATISTICS)
    names = (statistics,) if isinstance(statistics, str) else tuple(dict.fromkeys(statistics))
    for name in names:
        if name not in STATISTICS:
            hint = did_you_mean(name, STATISTICS, STATISTIC_SYNONYMS)
            raise ValueError(
                f"There is no statistic {name!r}. {hint}"
                f"Choose from: {', '.join(STATISTICS)}; or 'all'."
            )
    return names
