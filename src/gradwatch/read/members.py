"""Which sites a name stands for: a site, a layer, a block, a named group, the model."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from gradwatch.core import KIND_SYNONYMS, KINDS, Kind, Site
from gradwatch.read.replica_rows import common
from gradwatch.util import did_you_mean

MODEL = "model"
_LONGEST, _MOST = 200, 2_000


class NotRecordedError(LookupError):
    """The run has no record of this."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


def kind_of(name: Kind | str, sites: Sequence[Site]) -> Kind:
    """The kind of that name; raises NotRecordedError if the run has no site of it."""
    recorded = list(dict.fromkeys(site.kind for site in sites))
    if name in recorded:
        return Kind(name)
    known = "is recorded in this run" if name in KINDS else "exists"
    hint = did_you_mean(name, recorded, KIND_SYNONYMS)
    raise NotRecordedError(
        f"No kind {str(name)!r} {known}. {hint}Recorded: {', '.join(recorded) or 'nothing at all'}."
    )


def members(
    kind: Kind, path: str, sites: Sequence[Site], groups: Mapping[str, Sequence[Site]]
) -> list[Site]:
    """The sites of a kind that a path stands for; several are merged into one.

    In this order: the site of that path; the group that the user has named so; the
    layer, block or part of the training of that path; for `model`, all; the only site, or
    else the only layer, whose path ends so: `conv/kernel` for `net/conv/kernel`. Slices of
    variables, such as `lstm/kernel[forget]`, are in no total. Nor are the sites of single
    replicas, where there are sites that all replicas have in common.
    """
    of_kind = [site for site in sites if site.kind is kind]
    if (exact := Site(kind, path)) in of_kind:
        return [exact]
    wholes = [site for site in of_kind if not site.is_slice]
    named = [site for site in groups.get(path, ()) if site.kind is kind]
    below = [s for s in wholes if s.layer == path or s.path.startswith(f"{path}/")]
    found = named or below or (whole_model(kind, sites) if path == MODEL else [])
    found = found or _only_one_that_ends_so(path, of_kind, wholes)
    if found:
        return common(found, path)
    paths = [site.path for site in of_kind]
    layers = list(dict.fromkeys(site.layer for site in wholes))
    near = _near(path, [*paths, *layers, *groups])
    hint = f"Closest: {', '.join(near)}." if near else f"There are: {', '.join(paths[:8])}."
    raise NotRecordedError(
        f"No {kind} of {path!r} among {len(paths)} sites. {hint} List them with run.sites()."
    )


def whole_model(kind: Kind, sites: Sequence[Site]) -> list[Site]:
    """The sites of a kind whose total is the model's; none for single numbers."""
    own = [site for site in sites if site.kind is kind and not site.is_slice]
    return [] if kind.is_number else common(own, MODEL)


def _only_one_that_ends_so(path: str, sites: Sequence[Site], wholes: Sequence[Site]) -> list[Site]:
    ending = f"/{path}"
    found = [site for site in sites if site.path.endswith(ending)]
    if found:
        return found if len(found) == 1 else []
    found = [site for site in wholes if site.layer.endswith(ending)]
    return found if len({site.layer for site in found}) == 1 else []


def _near(path: str, known: Sequence[str]) -> list[str]:
    # Comparing takes time by the product of lengths, for every one that is known.
    comparable = [k for k in known if len(k) <= _LONGEST] if len(path) <= _LONGEST else []
    near = get_close_matches(path, comparable[:_MOST], n=5, cutoff=0.5)
    words = {word for word in path.split("/") if word}
    shared = [k for k in known if words & set(k.split("/"))]
    ends = [k for k in known if path and path in k]
    return list(dict.fromkeys([*near, *ends, *shared]))[:5]
