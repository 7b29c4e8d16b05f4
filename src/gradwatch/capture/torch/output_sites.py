"""The sites of what the submodules of a torch module return."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from gradwatch.capture.variable_names import dtype_name
from gradwatch.core import Kind, Site, SiteInfo, TorchModule
from gradwatch.watches import ATTENTION_KINDS


def output_infos(
    root: TorchModule,
    modules: Mapping[str, Any],
    saturating: Sequence[bool],
    attending: Collection[str],
    vitals: Any = None,
) -> list[SiteInfo]:
    """The sites of submodules of a root by their paths; which can saturate, and which attend."""
    top = list(root.children())
    indices = {id(m): (i, i - len(top)) for i, m in enumerate(top)}
    infos: list[SiteInfo] = []
    for (path, module), can_saturate in zip(modules.items(), saturating, strict=True):
        weights = list(module.parameters())
        kinds = [Kind.OUTPUT, Kind.OUTPUT_GRADIENT, Kind.DEAD_UNIT]
        kinds += ATTENTION_KINDS if path in attending else ()
        kinds += vitals.kinds if vitals is not None else ()
        infos += [
            SiteInfo(
                site=Site(kind, path),
                shape=(),
                dtype=dtype_name(weights[0]) if weights else "",
                part="output",
                trainable=not weights or any(w.requires_grad for w in weights),
                layer_indices=indices.get(id(module), ()),
                owners=(module,),
            )
            for kind in [*kinds, *([Kind.SATURATED] * can_saturate)]
        ]
    if vitals is not None:
        own = vitals.own_sites(modules)
        infos += [SiteInfo(site, (), "", "output", owners=(root,)) for site in own]
    return infos
