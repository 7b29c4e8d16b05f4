"""The watch of what layers attend to."""

from collections.abc import Iterable

from gradwatch.core import Kind, SiteInfo
from gradwatch.core import schedule as schedules
from gradwatch.core import select as selectors
from gradwatch.util import suggests_arguments
from gradwatch.watches.plan import Timetable
from gradwatch.watches.watch import WATCH_SYNONYMS, Watch, new_watch


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


def missing_attention(timetable: Timetable, infos: Iterable[SiteInfo]) -> str | None:
    """The notice that attention is watched where no layer is known to compute some, if so."""
    kind = Kind.ATTENTION_LOGIT
    if kind not in timetable.kinds or any(info.kind is kind for info in infos):
        return None
    return (
        "The monitor is to watch attention, but finds no layer that computes some. See "
        "docs/attention.md for those that it knows."
    )
