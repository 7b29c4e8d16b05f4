"""What to measure, where and when: one wish of the user's."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gradwatch.core import Kind
from gradwatch.core import schedule as schedules
from gradwatch.core import select as selectors
from gradwatch.core.schedule import Schedule
from gradwatch.watches.probes.probe import Pictures, Probe, SpectralNorms


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
    """Of outputs: count the units that are 0 throughout the batch."""
    per_replica: bool = False
    """Of gradients: also those of each replica, before they are brought together."""
    probe: Probe | None = None
    """What to do with the values themselves, when they are due."""
    optional: bool = False
    """Whether nothing is said where it cannot be measured: nobody has asked for it."""

    def __str__(self) -> str:
        said = [repr(getattr(spec, "__name__", spec)) for spec in self.selection]
        said += [f"every={self.every}"] if self.every else []
        said += [f"histogram={self.histogram}"] if self.histogram else []
        said += ["per_unit=True"] if self.per_unit else []
        said += ["per_replica=True"] if self.per_replica else []
        said += [f"of={self.kind!s}"] if self.probe and self.kind is not Kind.WEIGHT else []
        return f"{self.asker}({', '.join(said)})"

    @property
    def asker(self) -> str:
        """How the user wrote it, for messages."""
        return self.probe.asker if self.probe else _PLURALS.get(self.kind, f"{self.kind}s")


_PLURALS = {Kind.LOSS: "losses"}


def _watch(
    kind: Kind,
    selection: tuple[selectors.Spec, ...],
    every: schedules.Spec | None,
    histogram: bool | schedules.Spec,
) -> Watch:
    for spec in selection:
        selectors.as_selector(spec)
    return Watch(
        kind,
        selection,
        None if every is None else schedules.as_schedule(every),
        histogram if isinstance(histogram, bool) else schedules.as_schedule(histogram),
    )


def gradients(
    *selection: selectors.Spec,
    every: schedules.Spec | None = None,
    histogram: bool | schedules.Spec = False,
    per_replica: bool = False,
) -> Watch:
    """Watch gradients as the training step computed them.

    They are those of the loss on the step's own batch, undone of any loss
    scaling, before clipping. With gradient accumulation they are those of the
    micro-batch; `applied_gradients` are what the optimizer went on to use. Where several
    replicas train together, they are those of all of them, after reduction.

    Args:
        selection: which variables, see `gradwatch.select`; all if none is given.
        every: a schedule, see `gradwatch.schedule`; the monitor's if None.
        histogram: True for a histogram with each summary, or a schedule.
        per_replica: record beside them each replica's own, under `replica_0/...`: as it
            computed them, before reduction; without histograms. See docs/distributed.md.

    Example:

    >>> import gradwatch
    >>> watch = gradwatch.gradients("conv*/kernel", every=10, histogram="epoch")
    """
    watch = _watch(Kind.GRADIENT, selection, every, histogram)
    return replace(watch, per_replica=bool(per_replica))


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
    return _watch(Kind.APPLIED_GRADIENT, selection, every, histogram)


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
    return _watch(Kind.WEIGHT, selection, every, histogram)


def updates(
    *selection: selectors.Spec,
    every: schedules.Spec | None = None,
    histogram: bool | schedules.Spec = False,
) -> Watch:
    """Watch the real change of each trainable weight in the step.

    The weights themselves are measured along, so that the size of the update
    relative to the weight is known too. Costs a copy of the chosen weights on
    the steps that are measured.

    The arguments are those of `gradients`.

    Example:

    >>> import gradwatch
    >>> watch = gradwatch.updates("dense*", every=100)
    """
    return _watch(Kind.UPDATE, selection, every, histogram)


def outputs(
    *selection: selectors.Spec,
    every: schedules.Spec | None = None,
    histogram: bool | schedules.Spec = False,
    per_unit: bool = False,
) -> Watch:
    """Watch what layers return in the training step, dropout and all.

    The site of a layer that is called more than once in the step is `net/dense`,
    then `net/dense@2`, ...; of several outputs of a call, `net/lstm:0`,
    `net/lstm:1`. Where the layer ends in a sigmoid or tanh, the share of its
    outputs close to the bounds is measured along, as kind `saturated`.

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
    return replace(_watch(Kind.OUTPUT, selection, every, histogram), per_unit=bool(per_unit))


def output_gradients(
    *selection: selectors.Spec,
    every: schedules.Spec | None = None,
    histogram: bool | schedules.Spec = False,
) -> Watch:
    """Watch the gradients of the loss with respect to what layers return.

    They are those of the training step's own backward pass, undone of any loss
    scaling. Sites are named like those of `outputs`.

    The arguments are those of `outputs`.

    Example:

    >>> import gradwatch
    >>> watch = gradwatch.output_gradients("dense*", every=10)
    """
    return _watch(Kind.OUTPUT_GRADIENT, selection, every, histogram)


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
    kinds = {Kind.WEIGHT, Kind.GRADIENT, Kind.APPLIED_GRADIENT, Kind.UPDATE}
    if of not in kinds:
        raise ValueError(f"Pictures are of one of {', '.join(sorted(kinds))}. Received: of={of!r}")
    probe = Pictures(max_outputs, max_inputs)
    return replace(_watch(Kind(of), selection, every, False), probe=probe)


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
    return replace(_watch(Kind.WEIGHT, selection, every, False), probe=SpectralNorms())


def for_diagnosis() -> list[Watch]:
    """What a diagnosis goes by beside gradients and weights, wherever it can be had.

    Updates relative to weights, outputs of layers with their dead and saturated units, and
    what the step is given.

    Example:

    >>> from gradwatch.watches.watch import for_diagnosis
    >>> [str(watch) for watch in for_diagnosis()]
    ['inputs()', 'updates()', 'outputs(per_unit=True)', 'targets()']
    """
    watches = [Watch(Kind.INPUT), updates(), outputs(per_unit=True), Watch(Kind.TARGET)]
    return [replace(watch, optional=True) for watch in watches]


def of_the_step() -> list[Watch]:
    """The numbers of a step that cost next to nothing: its loss, its learning rate.

    Example:

    >>> from gradwatch.watches.watch import of_the_step
    >>> [str(watch) for watch in of_the_step()]
    ['losses()', 'scalars()']
    """
    return [Watch(kind, optional=True) for kind in (Kind.LOSS, Kind.SCALAR)]
