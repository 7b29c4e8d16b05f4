"""The inputs and targets of a step, by site."""

from collections.abc import Iterable, Mapping

from gradwatch.capture.errors import WrongTypeError
from gradwatch.capture.trees import leaves
from gradwatch.core import Kind, Site, SiteInfo, Tensor, Tree

ROOTS = {Kind.INPUT: "input", Kind.TARGET: "target"}


def batch_site(kind: Kind, keys: Iterable[object], prefix: str = "") -> Site:
    """The site of a tensor of the batch: `input`, `input/mask`, `target/0`."""
    return Site(kind, "/".join([*filter(None, [prefix]), ROOTS[kind], *map(str, keys)]))


def batch_tensors(inputs: Tree, targets: Tree, prefix: str) -> dict[Site, Tensor]:
    """The tensors of a batch by their sites; raises TypeError if one of them is not a tensor."""
    found = {}
    for kind, tree in ((Kind.INPUT, inputs), (Kind.TARGET, targets)):
        for leaf in leaves(tree):
            if leaf.value is None:
                continue
            if not hasattr(leaf.value, "shape") or not hasattr(leaf.value, "dtype"):
                raise WrongTypeError(
                    f"{ROOTS[kind]}s= is a tensor, or a tree of tensors. "
                    f"Received: {type(leaf.value).__name__}"
                )
            found[batch_site(kind, leaf.keys, prefix)] = leaf.value
    return found


def batch_infos(dtypes: Mapping[Site, str]) -> list[SiteInfo]:
    """The description of the sites; without a shape, which changes with the batch."""
    return [
        SiteInfo(site, (), dtype, ROOTS[site.kind], trainable=False)
        for site, dtype in dtypes.items()
    ]
