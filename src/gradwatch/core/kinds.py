"""The table of kinds: what can be measured at a site.

A kind is one entry here, or one call of `add_kind` in a module of your own. Labels, units,
totals, tags and menus everywhere come from it. Its source is a capture, or the probe of a
watch (see `gradwatch.watches.probed`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, TypeAlias

from gradwatch.core.kind_synonyms import KIND_SYNONYMS
from gradwatch.util import did_you_mean

Owner: TypeAlias = Literal["variable", "layer", "batch", "step", "training"]

KINDS: dict[str, Kind] = {}
"""Every kind by its name, in the order of menus."""


class Kind(str):
    """What is measured at a site: a string, such as `gradient`, with what is known of it.

    There is one object for each name, so `is` compares kinds. `Kind("gradient")` finds it.

    Attributes:
        owner: what it is measured of: a `variable`, a `layer`, the `batch` that the step was
            given, the `step` itself, or the `training`, which reports it of its own accord.
        is_number: whether it is one number by itself, with no statistics and in no total.
        meaning: in words, what is measured; a run may say it more exactly.
        label: what to call it in menus and titles.
        plural: the function that watches it, for messages: `gradients`.
        unit: what its magnitudes are in; empty if there is no unit.
        default_statistic: the one to show where none is chosen.
        shown_as: where only some statistics make sense, these, with a label and a unit each.

    Example:

    >>> from gradwatch import Kind
    >>> Kind("applied_gradient") is Kind.APPLIED_GRADIENT
    True
    >>> Kind.APPLIED_GRADIENT.label, Kind.APPLIED_GRADIENT == "applied_gradient"
    ('applied gradient', True)
    """

    __slots__ = (
        "default_statistic", "is_number", "label", "meaning", "owner", "plural", "shown_as", "unit",
    )  # fmt: skip

    owner: Owner
    is_number: bool
    meaning: str
    label: str
    plural: str
    unit: str
    default_statistic: str
    shown_as: Mapping[str, tuple[str, str]]

    GRADIENT: ClassVar[Kind]
    APPLIED_GRADIENT: ClassVar[Kind]
    UPDATE: ClassVar[Kind]
    WEIGHT: ClassVar[Kind]
    OUTPUT: ClassVar[Kind]
    OUTPUT_GRADIENT: ClassVar[Kind]
    DEAD_UNIT: ClassVar[Kind]
    SATURATED: ClassVar[Kind]
    ATTENTION_LOGIT: ClassVar[Kind]
    ATTENTION_ENTROPY: ClassVar[Kind]
    EXPERT_LOAD: ClassVar[Kind]
    RESIDUAL_RATIO: ClassVar[Kind]
    LOGIT: ClassVar[Kind]
    INPUT: ClassVar[Kind]
    TARGET: ClassVar[Kind]
    LOSS: ClassVar[Kind]
    INPUT_SUM: ClassVar[Kind]
    OUTPUT_SUM: ClassVar[Kind]
    OUTPUT_GRADIENT_SUM: ClassVar[Kind]
    SAMPLE_LOSS: ClassVar[Kind]
    SPECTRAL_NORM: ClassVar[Kind]
    FIRST_MOMENT: ClassVar[Kind]
    SECOND_MOMENT: ClassVar[Kind]
    NORMALIZED_GRADIENT: ClassVar[Kind]
    EPSILON_RULED: ClassVar[Kind]
    MOMENTUM_COSINE: ClassVar[Kind]
    SCALAR: ClassVar[Kind]
    METRIC: ClassVar[Kind]
    EPOCH_METRIC: ClassVar[Kind]

    def __new__(cls, name: str) -> Kind:
        try:
            return KINDS[name]
        except KeyError:
            hint = did_you_mean(name, KINDS, KIND_SYNONYMS)
            raise ValueError(
                f"There is no kind {name!r}. {hint}Choose from: {', '.join(KINDS)}"
            ) from None

    def __repr__(self) -> str:
        return f"Kind({str(self)!r})"

    def __reduce__(self) -> tuple[type[Kind], tuple[str]]:
        return Kind, (str(self),)

    @property
    def is_of_layer(self) -> bool:
        """Whether it is a tensor of a layer, rather than of a variable."""
        return self.owner == "layer" and not self.is_number

    @property
    def is_of_variable(self) -> bool:
        """Whether it is a tensor of a variable."""
        return self.owner == "variable" and not self.is_number

    @property
    def is_of_batch(self) -> bool:
        """Whether it is what the step was given, rather than a tensor of the network."""
        return self.owner == "batch" and not self.is_number

    @property
    def is_charted(self) -> bool:
        """Whether it is a number whose course over the steps says something; a sample's is not."""
        return self.is_number and self is not Kind.SAMPLE_LOSS

    @property
    def is_reported(self) -> bool:
        """Whether training reports it of its own accord, at measured steps and others alike."""
        return self.owner == "training"


def add_kind(
    name: str,
    owner: Owner,
    meaning: str,
    *,
    is_number: bool = False,
    label: str = "",
    plural: str = "",
    unit: str = "",
    default_statistic: str = "",
    shown_as: Mapping[str, tuple[str, str]] | None = None,
) -> Kind:
    """Add a kind to the table; for the arguments see `Kind`.

    Raises:
        ValueError: the name is taken, or is no lower-case identifier.

    Example:

    >>> from gradwatch.core import KINDS, add_kind
    >>> kind = add_kind("curvature", "variable", "Diagonal of the Hessian.")
    >>> kind.label, kind.plural, kind.default_statistic
    ('curvature', 'curvatures', 'l2')
    >>> del KINDS["curvature"]
    """
    if name in KINDS:
        raise ValueError(f"There is a kind {name!r} already. Choose another name.")
    if not name.isidentifier() or name != name.lower():
        raise ValueError(f"A kind's name is a lower-case identifier. Received: {name!r}")
    kind = str.__new__(Kind, name)
    kind.owner = owner
    kind.is_number = is_number
    kind.meaning = meaning
    kind.label = label or name.replace("_", " ")
    kind.plural = plural or f"{name}s"
    kind.unit = unit
    kind.default_statistic = default_statistic or ("value" if is_number else "l2")
    kind.shown_as = dict(shown_as or {})
    KINDS[name] = kind
    return kind


Kind.GRADIENT = add_kind(
    "gradient",
    "variable",
    "Gradient of the loss as the step computed it: unscaled, before clipping.",
    unit="loss per unit of weight",
)
Kind.APPLIED_GRADIENT = add_kind(
    "applied_gradient",
    "variable",
    "Gradient that the update rule used: accumulated and clipped.",
    unit="loss per unit of weight",
)
Kind.UPDATE = add_kind(
    "update",
    "variable",
    "Change of the variable in the step: its value after minus its value before.",
    unit="change per step",
)
Kind.WEIGHT = add_kind("weight", "variable", "Value of the variable after the step.")
Kind.OUTPUT = add_kind("output", "layer", "What the layer returned in the step.")
Kind.OUTPUT_GRADIENT = add_kind(
    "output_gradient",
    "layer",
    "Gradient of the loss with respect to what the layer returned: unscaled.",
    unit="loss per unit of output",
)
Kind.DEAD_UNIT = add_kind(
    "dead_unit",
    "layer",
    "For each unit of the layer 1 if all it returned in the batch was 0, else 0.",
    label="dead units",
    shown_as={
        "mean": ("share of units that are dead", "share"),
        "sum": ("number of dead units", "units"),
    },
)
Kind.SATURATED = add_kind(
    "saturated",
    "layer",
    "For each output of a sigmoid or tanh 1 if it is close to a bound, else 0.",
    label="saturated outputs",
    shown_as={
        "mean": ("share of outputs that are saturated", "share"),
        "sum": ("number of saturated outputs", "outputs"),
    },
)
Kind.ATTENTION_LOGIT = add_kind(
    "attention_logit",
    "layer",
    "Largest score of each sampled query and head before the softmax, scaled and masked.",
    plural="attention",
    default_statistic="max",
)
Kind.ATTENTION_ENTROPY = add_kind(
    "attention_entropy",
    "layer",
    "Entropy of the attention weights of each sampled query and head.",
    plural="attention",
    unit="nats",
    default_statistic="mean",
)
Kind.EXPERT_LOAD = add_kind(
    "expert_load", "layer", "How many tokens choose each expert.", default_statistic="max"
)
Kind.RESIDUAL_RATIO = add_kind(
    "residual_ratio",
    "layer",
    "Norm of what a residual branch adds over that of its stream, of each position or sample.",
    plural="residuals",
    unit="branch / stream",
    default_statistic="mean",
)
Kind.LOGIT = add_kind(
    "logit",
    "layer",
    "What the loss takes the softmax or sigmoid of.",
    plural="logits",
    default_statistic="max",
)
Kind.INPUT = add_kind("input", "batch", "Data that the step was given.", label="input batch")
Kind.TARGET = add_kind("target", "batch", "Labels that the step was given.", label="target batch")
Kind.LOSS = add_kind(
    "loss", "step", "Scalar that the step minimises.", is_number=True, plural="losses"
)
_OF_BAD_STEPS = "not finite if an element is not; of steps in which something was not finite."
Kind.INPUT_SUM = add_kind(
    "input_sum",
    "batch",
    f"Sum of the data that the step was given, {_OF_BAD_STEPS}",
    is_number=True,
)
Kind.OUTPUT_SUM = add_kind(
    "output_sum", "layer", f"Sum of what the layer returned, {_OF_BAD_STEPS}", is_number=True
)
Kind.OUTPUT_GRADIENT_SUM = add_kind(
    "output_gradient_sum",
    "layer",
    f"Sum of the gradient with respect to what the layer returned, {_OF_BAD_STEPS}",
    is_number=True,
)
Kind.SAMPLE_LOSS = add_kind(
    "sample_loss",
    "step",
    "Losses of single samples of the batch: their median, and the worst with their index.",
    is_number=True,
    label="losses of samples",
    plural="sample_losses",
)
Kind.SPECTRAL_NORM = add_kind(
    "spectral_norm",
    "variable",
    "The largest singular value of the variable's matrix.",
    is_number=True,
)
Kind.FIRST_MOMENT = add_kind(
    "first_moment",
    "variable",
    "Average of gradients, or momentum, that the optimizer holds after the step.",
    plural="optimizer_state",
)
Kind.SECOND_MOMENT = add_kind(
    "second_moment",
    "variable",
    "Average or sum of squared gradients that the optimizer holds after the step, not corrected "
    "for its bias.",
    plural="optimizer_state",
    default_statistic="mean",
)
Kind.NORMALIZED_GRADIENT = add_kind(
    "normalized_gradient",
    "variable",
    "Gradient that the update rule used, divided by max(sqrt(v), epsilon): v is the second moment "
    "after the step, corrected for its bias where the rule corrects it, and epsilon what the rule "
    "adds to sqrt(v). Its root mean square is RMS_t: far above 1 where v lags behind.",
    label="gradient / root of the second moment",
    plural="optimizer_state",
    unit="gradient / sqrt(v)",
    default_statistic="rms",
)
Kind.EPSILON_RULED = add_kind(
    "epsilon_ruled",
    "variable",
    "For each element 1 if epsilon is above sqrt(v), v as for normalized_gradient, else 0.",
    label="elements ruled by epsilon",
    plural="optimizer_state",
    default_statistic="mean",
    shown_as={
        "mean": ("share of elements ruled by epsilon", "share"),
        "sum": ("number of elements ruled by epsilon", "elements"),
    },
)
Kind.MOMENTUM_COSINE = add_kind(
    "momentum_cosine",
    "variable",
    "Cosine of the gradient that the update rule used and the first moment after the step.",
    is_number=True,
    label="cosine of gradient and momentum",
    plural="optimizer_state",
)
Kind.SCALAR = add_kind(
    "scalar",
    "step",
    "Another number of the step, such as its learning rate, or one that another tool logged.",
    is_number=True,
)
Kind.METRIC = add_kind(
    "metric",
    "training",
    "Number that the training reported after the step, such as its accuracy.",
    is_number=True,
)
Kind.EPOCH_METRIC = add_kind(
    "epoch_metric",
    "training",
    "Number that the training reported at the end of an epoch, such as its val_loss.",
    is_number=True,
    label="metric of the epoch",
)
