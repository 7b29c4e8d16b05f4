"""The watch of what an optimizer holds."""

from gradwatch.core import Kind
from gradwatch.core import schedule as schedules
from gradwatch.core import select as selectors
from gradwatch.util import suggests_arguments
from gradwatch.watches.watch import WATCH_SYNONYMS, Watch, new_watch


@suggests_arguments(WATCH_SYNONYMS)
def optimizer_state(
    *selection: selectors.Spec,
    every: schedules.Spec | None = None,
    histogram: bool | schedules.Spec = False,
) -> Watch:
    """Watch what the optimizer holds of each variable after the step, and what that makes of it.

    The first and second moments are summarised as any tensor. With them come, for each variable:
    `normalized_gradient`, the gradient divided by the root of the second moment, whose `rms` is
    the RMS_t that rises before a loss spikes; `epsilon_ruled`, the share of elements whose second
    moment is so small that epsilon rules; `momentum_cosine`, the cosine of gradient and momentum;
    and the update, whose `rms` is the size of the step. See docs/optimizer-state.md.

    The arguments are those of `gradients`; histograms are of the moments.

    Example:

    >>> import gradwatch
    >>> watch = gradwatch.optimizer_state("*/kernel", every=10)
    """
    return new_watch(Kind.FIRST_MOMENT, selection, every, histogram)
