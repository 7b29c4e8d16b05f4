"""The gates of Keras's recurrent layers, which lie next to each other in one kernel."""

from dataclasses import replace

from gradwatch.core import Site, SiteInfo

# In the order in which Keras lays them out along the last axis.
GATES = {
    "LSTMCell": ("input", "forget", "cell", "output"),
    "ConvLSTMCell": ("input", "forget", "cell", "output"),
    "GRUCell": ("update", "reset", "candidate"),
}
GATED = ("kernel", "recurrent_kernel", "bias")


def slices_of(whole: SiteInfo) -> list[SiteInfo]:
    """The named gates of a variable, as sites of their own; none if it has none."""
    classes = type(whole.owners[-1]).__mro__ if whole.owners else ()
    names = next((GATES[c.__name__] for c in classes if c.__name__ in GATES), ())
    width = whole.shape[-1] if whole.shape else 0
    if not names or whole.part not in GATED or width < len(names) or width % len(names):
        return []
    size = width // len(names)
    return [
        replace(
            whole,
            site=Site(whole.kind, f"{whole.path}[{name}]"),
            shape=(*whole.shape[:-1], size),
            columns=(i * size, (i + 1) * size),
        )
        for i, name in enumerate(names)
    ]
