"""What to measure, where and when: one entry of `Monitor(watch=[...])`."""

from dataclasses import dataclass, replace

from gradwatch.core import Kind, Schedule
from gradwatch.core import schedule as schedules
from gradwatch.core import select as selectors
from gradwatch.util import did_you_mean, suggests_arguments
from gradwatch.watches.probes.probe import Pictures, Probe, SpectralNorms

_POSITIONAL = 'the selection without a name: gradients("conv*")'
WATCH_SYNONYMS = {
    **dict.fromkeys(("layer", "layers", "pattern", "name", "path", "selection"), _POSITIONAL),
    **dict.fromkeys(("freq", "frequency", "interval", "step", "schedule", "epoch"), "every="),
    **dict.fromkeys(("histograms", "hist", "bins", "histogram_freq"), "histogram="),
    **dict.fromkeys(("dead_units", "units", "dead"), "per_unit="),
    **dict.fromkeys(("replicas", "replica"), "per_replica="),
    "kind": "of=",
}
"""What is meant by arguments that the functions which make watches do not have."""

STATE_KINDS = (Kind.FIRST_MOMENT, Kind.SECOND_MOMENT)
"""What optimizers hold of a variable, one or both of them."""

ATTENTION_KINDS = (Kind.ATTENTION_LOGIT, Kind.ATTENTION_ENTROPY)
"""What is measured of attention."""
_TOGETHER = {kinds[0]: kinds for kinds in (STATE_KINDS, ATTENTION_KINDS)}


@dataclass(frozen=True)
class Watch:
    """Measure sites of a kind, on a schedule, perhaps with histograms.

    `every` is None for the monitor's own default. `histogram` is True for one
    with each summary; steps on which its own schedule makes one due are measured
    whether or not `every` includes them.
    """

    kind: Kind
    selection: tuple[selectors.Spec, ...] = ()
    every: Schedule | None = None
    histogram: bool | Schedule = False
    per_unit: bool = False
    """Of outputs: count the units that are 0 for the whole batch."""
    per_replica: bool = False
    """Of gradients: also those of each replica, before they are reduced."""
    probe: Probe | None = None
    """A function of the values themselves, called when they are due."""
    optional: bool = False
    """Whether to skip it silently where it cannot be measured: the user has not asked for it."""

    def __str__(self) -> str:
        arguments = [repr(getattr(spec, "__name__", spec)) for spec in self.selection]
        arguments += [f"every={self.every}"] if self.every else []
        arguments += [f"histogram={self.histogram}"] if self.histogram else []
        arguments += ["per_unit=True"] if self.per_unit else []
        arguments += ["per_replica=True"] if self.per_replica else []
        arguments += [f"of={self.kind!s}"] if self.probe and self.kind is not Kind.WEIGHT else []
        return f"{self.function_name}({', '.join(arguments)})"

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds whose sites it selects: of an optimizer's state, those that there are."""
        return _TOGETHER.get(self.kind, (self.kind,))

    @property
    def is_for_diagnosis(self) -> bool:
        """Whether only the diagnosis wants it, and it costs more than a number of the step."""
        return self.optional and self.kind not in (Kind.LOSS, Kind.SCALAR)

    @property
    def function_name(self) -> str:
        """The function that makes such a watch, for messages."""
        return self.probe.function_name if self.probe else self.kind.plural


def new_watch(
    kind: Kind,
    selection: tuple[selectors.Spec, ...],
    every: schedules.Spec | None,
    histogram: bool | schedules.Spec,
) -> Watch:
    """A watch from the arguments of the functions that make one."""
    for spec in selection:
        selectors.as_selector(spec)
    return Watch(
        kind,
        selection,
        None if every is None else schedules.as_schedule(every),
        histogram if isinstance(histogram, bool) else schedules.as_schedule(histogram),
    )


@suggests_arguments(WATCH_SYNONYMS)
def gradients(
    *selection: selectors.Spec,
    every: schedules.Spec | None = None,
    histogram: bool | schedules.Spec = False,
    per_replica: bool = False,
) -> Watch:
    """Watch gradients as the training step computed them.

    They are the gradients of the loss on the step's own batch, with any loss scale divided
    out, before clipping. With gradient accumulation they are those of the micro-batch;
    `applied_gradients` are those that the optimizer used. With several replicas, they are
    the gradients after reduction.

    Args:
        selection: which variables, see `gradwatch.select`; all if none is given.
        every: a schedule, see `gradwatch.schedule`; the monitor's if None.
        histogram: True for a histogram with each summary, or a schedule.
        per_replica: also record the gradients of each replica, before reduction, under
            `replica_0/...`; without histograms. See docs/distributed.md.

    Example:

    >>> import gradwatch
    >>> watch = gradwatch.gradients("conv*/kernel", every=10, histogram="epoch")
    """
    watch = new_watch(Kind.GRADIENT, selection, every, histogram)
    return replace(watch, per_replica=bool(per_replica))


@suggests_arguments(WATCH_SYNONYMS)
def applied_gradients(
    *selection: selectors.Spec,
    every: schedules.Spec | None = None,
    histogram: bool | schedules.Spec = False,
) -> Watch:
    """Watch gradients as the update rule used them: accumulated and clipped.

    With `gradient_accumulation_steps` there is one only on the steps that
    update the weights; the other steps have none.

    The arguments are those of `gradients`.

    Example:

    >>> import gradwatch
    >>> watch = gradwatch.applied_gradients(every=10)
    """
    return new_watch(Kind.APPLIED_GRADIENT, selection, every, histogram)


@suggests_arguments(WATCH_SYNONYMS)
def weights(
    *selection: selectors.Spec,
    every: schedules.Spec | None = None,
    histogram: bool | schedules.Spec = False,
) -> Watch:
    """Watch the values of weights, biases and all other variables of the layers.

    They are the values after the step, so those of an epoch's last step are the
    ones the epoch ends with. Frozen variables and statistics such as
    BatchNormalization's are included.

    The arguments are those of `gradients`.

    Example:

    >>> import gradwatch
    >>> watch = gradwatch.weights("*/kernel", every="epoch", histogram=True)
    """
    return new_watch(Kind.WEIGHT, selection, every, histogram)


@suggests_arguments(WATCH_SYNONYMS)
def updates(
    *selection: selectors.Spec,
    every: schedules.Spec | None = None,
    histogram: bool | schedules.Spec = False,
) -> Watch:
    """Watch the real change of each trainable weight in the step.

    The weights are measured too, for the size of the update relative to the weight. This
    costs a copy of the chosen weights at each measured step.

    The arguments are those of `gradients`.

    Example:

    >>> import gradwatch
    >>> watch = gradwatch.updates("dense*", every=100)
    """
    return new_watch(Kind.UPDATE, selection, every, histogram)


@suggests_arguments(WATCH_SYNONYMS)
def outputs(
    *selection: selectors.Spec,
    every: schedules.Spec | None = None,
    histogram: bool | schedules.Spec = False,
    per_unit: bool = False,
) -> Watch:
    """Watch what layers return in the training step, with dropout.

    The site of a layer that is called more than once in the step is `net/dense`,
    then `net/dense@2`, ...; of several outputs of a call, `net/lstm:0`,
    `net/lstm:1`. Where the layer ends in a sigmoid or tanh, the share of its
    outputs close to the bounds is measured too, as kind `saturated`.

    Args:
        selection: which layers, see `gradwatch.select`; all if none is given.
        every: a schedule, see `gradwatch.schedule`; the monitor's if None.
        histogram: True for a histogram with each summary, or a schedule.
        per_unit: find dead units too, as kind `dead_unit`: units (features,
            channels) whose outputs are 0 for the whole batch.

    Example:

    >>> import gradwatch
    >>> watch = gradwatch.outputs("conv*", every=10, per_unit=True)
    """
    return replace(new_watch(Kind.OUTPUT, selection, every, histogram), per_unit=bool(per_unit))


@suggests_arguments(WATCH_SYNONYMS)
def output_gradients(
    *selection: selectors.Spec,
    every: schedules.Spec | None = None,
    histogram: bool | schedules.Spec = False,
) -> Watch:
    """Watch the gradients of the loss with respect to what layers return.

    They come from the training step's own backward pass, with any loss scale divided out.
    Sites are named like those of `outputs`.

    The arguments are those of `outputs`.

    Example:

    >>> import gradwatch
    >>> watch = gradwatch.output_gradients("dense*", every=10)
    """
    return new_watch(Kind.OUTPUT_GRADIENT, selection, every, histogram)


@suggests_arguments(WATCH_SYNONYMS)
def pictures(
    *selection: selectors.Spec,
    of: str = "weight",
    every: schedules.Spec = "epoch",
    max_outputs: int = 16,
    max_inputs: int = 16,
) -> Watch:
    """Draw weights, or their gradients, as pictures.

    Blue is negative, white zero, red positive, green not finite. Of a convolution
    kernel each row is an output filter and each column an input channel; the
    strongest colour is the filter's largest magnitude. Other tensors are drawn as
    one matrix, with one scale. The values come to the host for it, so this is
    for some tensors, rarely.

    Args:
        selection: which variables, see `gradwatch.select`; all if none is given.
        of: the kind of tensor: `weight`, `gradient`, `applied_gradient` or `update`.
        every: a schedule, see `gradwatch.schedule`.
        max_outputs: how many filters of a convolution kernel to draw.
        max_inputs: how many input channels of each.

    Example:

    >>> import gradwatch
    >>> watch = gradwatch.pictures("conv*/kernel", of="gradient", every="epoch")
    """
    return probed(Pictures(max_outputs, max_inputs), *selection, of=of, every=every)


@suggests_arguments(WATCH_SYNONYMS)
def spectral_norms(*selection: selectors.Spec, every: schedules.Spec = "epoch") -> Watch:
    """Watch the spectral norm of weights: the most they can stretch a vector.

    It is the largest singular value of the variable as a matrix, whose columns are
    its last axis. It is found by power iteration on the host, which starts from
    where the last one arrived; so this is for some matrices, rarely.

    Args:
        selection: which variables, see `gradwatch.select`; all if none is given.
        every: a schedule, see `gradwatch.schedule`.

    Example:

    >>> import gradwatch
    >>> watch = gradwatch.spectral_norms("dense*/kernel", every=1000)
    """
    return probed(SpectralNorms(), *selection, every=every)


@suggests_arguments(WATCH_SYNONYMS)
def probed(
    probe: Probe,
    *selection: selectors.Spec,
    of: str = "weight",
    every: schedules.Spec = "epoch",
) -> Watch:
    """Watch a number, an array or a picture that a function makes of a tensor's values.

    The values come to the host for it, so this is for some tensors, rarely. It is the source
    of a kind of your own, see `gradwatch.core.add_kind`.

    Args:
        probe: the function, with the kind that it measures; see `Probe`.
        selection: which variables, see `gradwatch.select`; all if none is given.
        of: the kind of tensor: `weight`, `gradient`, `applied_gradient` or `update`.
        every: a schedule, see `gradwatch.schedule`.

    Raises:
        ValueError: `of` is no kind of a variable's tensor.

    Example:

    >>> from gradwatch.watches import SpectralNorms, probed
    >>> str(probed(SpectralNorms(), "dense*/kernel", of="gradient"))
    "spectral_norms('dense*/kernel', every=each_epoch(1), of=gradient)"
    """
    allowed = (Kind.APPLIED_GRADIENT, Kind.GRADIENT, Kind.UPDATE, Kind.WEIGHT)
    if of not in allowed:
        hint = did_you_mean(of, allowed)
        raise ValueError(f"of is one of {', '.join(allowed)}. {hint}Received: of={of!r}")
    return replace(new_watch(Kind(of), selection, every, False), probe=probe)


@suggests_arguments(WATCH_SYNONYMS)
def losses(*, every: schedules.Spec | None = None) -> Watch:
    """Watch the loss of the step.

    Args:
        every: a schedule, see `gradwatch.schedule`; the monitor's if None.

    Example:

    >>> import gradwatch
    >>> watch = gradwatch.losses(every=1)
    """
    return new_watch(Kind.LOSS, (), every, False)


@suggests_arguments(WATCH_SYNONYMS)
def scalars(*, every: schedules.Spec | None = None) -> Watch:
    """Watch the other numbers of the step: its learning rate, batch size and loss scale.

    Args:
        every: a schedule, see `gradwatch.schedule`; the monitor's if None.

    Example:

    >>> import gradwatch
    >>> watch = gradwatch.scalars()
    """
    return new_watch(Kind.SCALAR, (), every, False)
