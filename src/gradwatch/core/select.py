"""Which sites to measure: selectors and how they combine.

A selector can be given in a short form:

| given | selects |
|---|---|
| `"dense*"`, `"conv*/kernel"` | paths with these neighbouring components, `*` and `?` within one |
| `"lstm*/kernel[forget]"` | slices of variables: the gates of recurrent layers |
| `"!bias"` | all but those |
| `0`, `-1` | the variables of `model.layers[0]`, `model.layers[-1]` |
| `re.compile("block[1-3]")` | paths in which the expression is found |
| `keras.layers.Dense` | the variables of layers of that type |
| a function | sites for which it is true; it is given a `SiteInfo` |

Selectors combine with `|`, `&` and `~`. A list of them selects the sites that any of
them selects, without those that one with a `!` names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from gradwatch.core.sites import SiteInfo

CELL = re.compile(r".*_cell(_\d+)?(#\d+)?")


class SelectionError(ValueError):
    """A selector that selects nothing."""


@dataclass(frozen=True)
class Selector:
    """A named condition on a site."""

    name: str
    matches: Callable[[SiteInfo], bool]
    of_slices: bool = False
    """Whether it selects slices of variables too, such as `kernel[forget]`. Other selectors
    never do."""

    def selects(self, info: SiteInfo) -> bool:
        """Whether the site is chosen."""
        return (self.of_slices or info.columns is None) and self.matches(info)

    def __repr__(self) -> str:
        return self.name

    def __or__(self, other: Spec) -> Selector:
        that = as_selector(other)
        return Selector(
            f"({self} | {that})",
            lambda i: self.selects(i) or that.selects(i),
            self.of_slices or that.of_slices,
        )

    def __and__(self, other: Spec) -> Selector:
        that = as_selector(other)
        return Selector(
            f"({self} & {that})",
            lambda i: self.matches(i) and that.matches(i),
            self.of_slices or that.of_slices,
        )

    def __invert__(self) -> Selector:
        return Selector(f"~{self}", lambda i: not self.matches(i), self.of_slices)


Spec: TypeAlias = Selector | str | int | re.Pattern[str] | type[Any] | Callable[[SiteInfo], bool]


def everything() -> Selector:
    """Every site."""
    return Selector("everything()", lambda i: True)


def path(pattern: str) -> Selector:
    """Sites whose path has neighbouring components that match the pattern's.

    A pattern that ends in brackets is about slices: `lstm*/kernel[forget]`, or
    `kernel[*]` for all of them.
    """
    whole, bracket, slices = pattern.removesuffix("]").partition("[")
    if bracket and pattern.endswith("]"):
        # To fnmatch, brackets are a set of characters; here they stand for themselves.
        return _slices_of(path(whole), slices, pattern)
    wanted = pattern.strip("/").split("/")
    if not all(wanted):
        raise ValueError(f"A path pattern has no empty component. Received: {pattern!r}")

    def found_in(parts: list[str]) -> bool:
        starts = range(len(parts) - len(wanted) + 1)
        return any(all(map(fnmatchcase, parts[i : i + len(wanted)], wanted)) for i in starts)

    def matches(info: SiteInfo) -> bool:
        parts = info.path.split("/")
        # The cell inside a recurrent layer need not be named: lstm/kernel is lstm/lstm_cell/kernel.
        without_cells = [part for part in parts if not CELL.fullmatch(part)]
        return info.path == pattern or found_in(parts) or found_in(without_cells)

    return Selector(repr(pattern), matches)


def _slices_of(variable: Selector, pattern: str, name: str) -> Selector:
    def matches(info: SiteInfo) -> bool:
        if info.columns is None:
            return False
        whole, _, own = info.path.removesuffix("]").rpartition("[")
        site = replace(info.site, path=whole)
        return variable.matches(replace(info, site=site)) and fnmatchcase(own, pattern)

    return Selector(repr(name), matches, of_slices=True)


def regex(pattern: str | re.Pattern[str]) -> Selector:
    """Sites in whose path the regular expression is found."""
    compiled = re.compile(pattern)
    return Selector(
        f"regex({compiled.pattern!r})",
        lambda i: compiled.search(i.path) is not None,
        of_slices=r"\[" in compiled.pattern,
    )


def layer(index: int) -> Selector:
    """The variables of `model.layers[index]`; negative counts from the end."""
    return Selector(f"layer({index})", lambda i: index in i.layer_indices)


def layer_type(kind: type[Any] | str) -> Selector:
    """The variables of layers of a type: the class, or its name in a string."""
    if isinstance(kind, str):
        return Selector(
            f"layer_type({kind!r})",
            lambda i: any(c.__name__ == kind for o in i.owners for c in type(o).__mro__),
        )
    return Selector(
        f"layer_type({kind.__name__})", lambda i: any(isinstance(o, kind) for o in i.owners)
    )


def part(name: str) -> Selector:
    """Variables by their own name: `kernel`, `bias`, `gamma`, `embeddings`, ..."""
    return Selector(f"part({name!r})", lambda i: fnmatchcase(i.part, name))


def where(predicate: Callable[[SiteInfo], bool]) -> Selector:
    """Sites for which a function of the `SiteInfo` is true."""
    return Selector(f"where({getattr(predicate, '__name__', 'function')})", predicate)


def as_selector(spec: Spec) -> Selector:
    """A selector from any of its short forms.

    Raises:
        TypeError: `spec` is none of them.
    """
    if isinstance(spec, Selector):
        return spec
    if isinstance(spec, str):
        return ~path(spec[1:]) if spec.startswith("!") else path(spec)
    if isinstance(spec, int) and not isinstance(spec, bool):
        return layer(spec)
    if isinstance(spec, re.Pattern):
        return regex(spec)
    if isinstance(spec, type):
        return layer_type(spec)
    if callable(spec):
        return where(spec)
    raise TypeError(
        "A selector is a path pattern, a layer index, a compiled regular expression, a layer type, "
        "a function of a SiteInfo or one from gradwatch.select. "
        f"Received: {spec!r} (of type {type(spec).__name__})"
    )


def split(specs: Iterable[Spec]) -> tuple[list[Selector], list[Selector]]:
    """The selectors of sites to include, everything if there is none, and of those to exclude."""
    including: list[Selector] = []
    excluding: list[Selector] = []
    for spec in specs:
        if isinstance(spec, str) and spec.startswith("!"):
            excluding.append(as_selector(spec[1:]))
        else:
            including.append(as_selector(spec))
    return including or [everything()], excluding


def choose(specs: Iterable[Spec], sites: Sequence[SiteInfo], function_name: str) -> list[SiteInfo]:
    """The sites that any of the selectors selects, without those excluded by `!`.

    No selector at all selects every site. If one of them matches nothing, or if nothing
    is left, a SelectionError names the function that made the watch.
    """
    specs = list(specs)
    including, excluding = split(specs)
    for selector in including + excluding:
        if sites and not any(selector.selects(info) for info in sites):
            raise SelectionError(_nothing_matched(selector, sites, function_name))
    chosen = [
        info
        for info in sites
        if any(s.selects(info) for s in including) and not any(s.selects(info) for s in excluding)
    ]
    if sites and not chosen:
        names = ", ".join(map(repr, specs))
        raise SelectionError(
            f"{function_name}({names}) leaves nothing to measure: "
            "each site it selects is excluded again."
        )
    return chosen


def _nothing_matched(selector: Selector, sites: Sequence[SiteInfo], function_name: str) -> str:
    paths = list(dict.fromkeys(i.path for i in sites if selector.of_slices or i.columns is None))
    components = sorted({part for p in paths for part in p.split("/")})
    quoted = "/".join(re.findall(r"'(.*?)'", selector.name))
    words = [word for word in re.split(r"[/*?]+", quoted) if word]
    near = [c for word in words for c in get_close_matches(word, components, n=3, cutoff=0.5)]
    closest = [p for p in paths if set(near) & set(p.split("/"))][:5]
    if closest:
        hint = f"Closest: {', '.join(closest)}."
    else:
        hint = f"There are: {', '.join(paths[:8])}{', ...' if len(paths) > 8 else '.'}"
    what = "layers" if sites[0].kind.is_of_layer else "variables"
    return (
        f"{function_name}({selector}) matched none of {len(paths)} {what}. {hint} "
        "List them with gradwatch.sites(model)."
    )
