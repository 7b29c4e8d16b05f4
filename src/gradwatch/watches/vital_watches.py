"""The watches of transformers: attention, residual branches, logits."""

from collections.abc import Iterable

from gradwatch.core import Kind, SiteInfo
from gradwatch.core import schedule as schedules
from gradwatch.core import select as selectors
from gradwatch.util import suggests_arguments
from gradwatch.watches.plan import Timetable
from gradwatch.watches.watch import ATTENTION_KINDS, WATCH_SYNONYMS, Watch, new_watch

VITAL_KINDS = (*ATTENTION_KINDS, Kind.RESIDUAL_RATIO, Kind.LOGIT)
"""What is measured of layers only where it is asked for by its own watch."""


@suggests_arguments(WATCH_SYNONYMS)
def attention(
    *selection: selectors.Spec,
    every: schedules.Spec | None = None,
    histogram: bool | schedules.Spec = False,
) -> Watch:
    """Watch the scores of attention: how large they get, and how far they have decided.

    Of at most 16 evenly spread queries in each sequence and head: `attention_logit`, the largest
    score before the softmax, scaled and masked, and `attention_entropy`, that of the weights over
    the keys, in nats: 0 if one key gets all, the logarithm of their number if all get the same.
    Layers are `keras.layers.MultiHeadAttention` and `GroupedQueryAttention` in `fit`, and torch
    modules that have attention in the name of their class. See docs/attention.md.

    The arguments are those of `outputs`.

    Example:

    >>> import gradwatch
    >>> watch = gradwatch.attention("encoder/*", every=10)
    """
    return new_watch(Kind.ATTENTION_LOGIT, selection, every, histogram)


@suggests_arguments(WATCH_SYNONYMS)
def residuals(
    *selection: selectors.Spec,
    every: schedules.Spec | None = None,
    histogram: bool | schedules.Spec = False,
) -> Watch:
    """Watch how large what a residual branch adds is, against the stream that it is added to.

    Kind `residual_ratio` is the norm of the branch divided by that of the stream, for each position
    of each sample, and for each sample of images. Branches are found where a tensor is added to
    what was computed from it with weights: in the functional models of Keras in `fit`, and in
    eager torch modules. Elsewhere, put `gradwatch.residual` into the code, which needs no watch.
    See docs/attention.md.

    The arguments are those of `outputs`; the path is that of the layer that computes the branch.

    Example:

    >>> import gradwatch
    >>> watch = gradwatch.residuals("*/mlp", every=10)
    """
    return new_watch(Kind.RESIDUAL_RATIO, selection, every, histogram)


@suggests_arguments(WATCH_SYNONYMS)
def logits(
    *selection: selectors.Spec,
    every: schedules.Spec | None = None,
    histogram: bool | schedules.Spec = False,
) -> Watch:
    """Watch the logits: what the loss takes the softmax or the sigmoid of.

    In Keras `fit` they are what the softmax or sigmoid of an output layer is given, or what the
    layer returns if the loss is one with `from_logits=True`. In torch they are what a module has
    returned and the loss takes a softmax of, such as `torch.nn.functional.cross_entropy`. See
    docs/attention.md.

    The arguments are those of `outputs`.

    Example:

    >>> import gradwatch
    >>> watch = gradwatch.logits(every=10, histogram=True)
    """
    return new_watch(Kind.LOGIT, selection, every, histogram)


_MISSING = {
    Kind.ATTENTION_LOGIT: "watch attention, but finds no layer that computes some",
    Kind.RESIDUAL_RATIO: "watch residual branches, but finds none by itself: "
    "gradwatch.residual(stream, branch, name) in the code of a layer records one, and needs no "
    "watch",
    Kind.LOGIT: "watch logits, but finds no output that a loss takes the softmax or sigmoid of: "
    "gradwatch.tap(x, name) in the code of a layer records them",
}


def missing_vitals(timetable: Timetable, infos: Iterable[SiteInfo]) -> list[str]:
    """Notices about what is watched where no layer is known that has it."""
    known = {info.kind for info in infos}
    return [
        f"The monitor is to {what}. See docs/attention.md."
        for kind, what in _MISSING.items()
        if kind in timetable.kinds and kind not in known
    ]
