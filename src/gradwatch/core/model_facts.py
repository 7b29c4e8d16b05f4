"""Facts about a model and its training that are not measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import TypeVar

from gradwatch.util import Json

T = TypeVar("T", bound="LayerFacts | LossFacts | OptimizerFacts | ParameterFacts")


@dataclass(frozen=True)
class LayerFacts:
    """A layer; unknown facts are None.

    `path` is that of the layer's sites, `class_name` such as `Conv2D`, `activation` such as `relu`.
    `units` is the number of features or channels that it returns. It is `trainable` if any of its
    variables is, and `dtype` is that of its computation. `rate` is that of dropout. A normalization
    or dropout `is_inferring` if it acts in training as in inference; and a normalization `is_fresh`
    if its statistics have never been updated before. Its `momentum` is the share of its statistics
    that a step keeps.
    """

    path: str
    class_name: str | None = None
    activation: str | None = None
    units: int | None = None
    trainable: bool | None = None
    dtype: str | None = None
    rate: float | None = None
    is_inferring: bool | None = None
    is_fresh: bool | None = None
    momentum: float | None = None


@dataclass(frozen=True)
class LossFacts:
    """The loss; unknown facts are None.

    `name` is in snake case: `mean_squared_error`. `is_nonnegative` is about valid targets; None to
    decide by the name. A loss `is_of_own_step` if a custom training step computes it: it need not
    fall, for example that of two adversarial networks. `reduction` is `other` where a factor or
    other terms make the loss no mean over samples; then `rest` is `penalties` where these are about
    weights or the same output only, and else `terms`. `axis` is the axis of the classes, counted
    from the end, where a softmax computes them; 0 if it takes the samples for classes. `shapes` are
    those of the output and of the targets as the loss receives them, if the loss broadcasts one to
    the other. `activation` is what was applied last to what the loss receives, where no layer is
    known that computes it. `swapped` are the shapes before and after a view that gives axes each
    other's place without moving values. `scale` is the constant factor of the logits before a
    softmax: one over its temperature. `through` are the other groups whose parameters the loss
    passes through, and it `is_through_others` if neither the module nor its optimizer has some of
    these parameters: a generator learns through a discriminator. `judges` are the groups that
    learn through this one, and through which it does not learn itself. `misuses` names operations
    that cannot be meant as they are called, see `misused.py`.
    """

    name: str | None = None
    from_logits: bool | None = None
    is_nonnegative: bool | None = None
    reduction: str | None = None
    rest: str | None = None
    label_smoothing: float | None = None
    is_of_own_step: bool | None = None
    axis: int | None = None
    shapes: Sequence[Sequence[int]] | None = None
    activation: str | None = None
    swapped: Sequence[Sequence[int]] | None = None
    scale: float | None = None
    through: Sequence[str] = ()
    is_through_others: bool | None = None
    judges: Sequence[str] = ()
    misuses: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "through", tuple(self.through))
        object.__setattr__(self, "misuses", tuple(self.misuses))
        object.__setattr__(self, "judges", tuple(self.judges))
        for name in ("shapes", "swapped"):
            shapes = getattr(self, name)
            if shapes is not None:
                object.__setattr__(self, name, tuple(tuple(shape) for shape in shapes))

    @property
    def is_mean(self) -> bool:
        """Whether its level can be compared with that of a mean over samples."""
        return self.reduction not in ("sum", "other")


@dataclass(frozen=True)
class OptimizerFacts:
    """The optimizer, its name in lower case; unknown facts are None.

    `learning_rate` and `loss_scale` are initial values; without loss scaling, the latter is None.
    So are `clip_norm` and `clip_value` if gradients are not clipped, and numbers that are not
    finite. The other constants have the names of Keras: `beta_1` and `beta_2` are those of Adam; of
    RMSprop, `beta_2` is its smoothing.
    """

    name: str | None = None
    learning_rate: float | None = None
    is_scheduled: bool | None = None
    loss_scale: float | None = None
    weight_decay: float | None = None
    epsilon: float | None = None
    beta_1: float | None = None
    beta_2: float | None = None
    momentum: float | None = None
    clip_norm: float | None = None
    clip_value: float | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, float) and not math.isfinite(value):
                # A rate that is about to ruin the training, and JSON has no word for it.
                object.__setattr__(self, each.name, None)


@dataclass(frozen=True)
class ParameterFacts:
    """How many parameters there are, and which of them nothing trains; unknown facts are None.

    `total` and `trainable` are numbers of elements. `unheld` are paths of trainable parameters that
    no optimizer holds; `unregistered` those of layers that the model does not know, because they
    are in a plain list for example; `uncalled` those of layers that the first step did not call.
    `fresh` are those of `unheld` whose values are as they were initialized. `alike` are the paths
    of layers whose units are all the same, after some steps of training.
    """

    total: int | None = None
    trainable: int | None = None
    unheld: Sequence[str] = ()
    unregistered: Sequence[str] = ()
    uncalled: Sequence[str] = ()
    fresh: Sequence[str] = ()
    alike: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in ("unheld", "unregistered", "uncalled", "fresh", "alike"):
            object.__setattr__(self, name, tuple(getattr(self, name)))


@dataclass(frozen=True)
class ModelFacts:
    """The facts about a model and its training; a rule that needs an unknown fact finds nothing.

    Attributes:
        layers: in the order of execution; inner layers before the outer one.
        outputs: the paths of the layers whose outputs the loss receives.
        loss: the loss, if it is a single one on a single output.
        optimizer: the optimizer.
        targets_are_whole: whether the targets are whole numbers.
        batch_size: the number of samples per step.
        precision: of the computation: `float32`, `mixed_float16`, `mixed_bfloat16`, ...
        parameters: how many there are, and which of them nothing trains.
        is_linear: whether the output, before the last activation, is a linear function of the
            input.
        unused_inputs: the names of the model's inputs that no layer gets.
        mixing_samples: the paths of layers that take the samples of a batch for the steps of a
            sequence.
        groups: in a training with several optimizers, the facts of each group.

    Example:

    >>> from gradwatch.diagnosis import ModelFacts
    >>> from gradwatch.core.model_facts import LayerFacts, LossFacts
    >>> facts = ModelFacts([LayerFacts("net/dense", "Dense", "softmax", 1)], ["net/dense"],
    ...                    LossFacts("binary_crossentropy"))
    >>> facts.last_layer.units
    1
    >>> ModelFacts.from_json(facts.to_json()) == facts
    True
    """

    layers: Sequence[LayerFacts] = ()
    outputs: Sequence[str] = ()
    loss: LossFacts = field(default_factory=LossFacts)
    optimizer: OptimizerFacts = field(default_factory=OptimizerFacts)
    targets_are_whole: bool | None = None
    batch_size: int | None = None
    precision: str | None = None
    parameters: ParameterFacts = field(default_factory=ParameterFacts)
    is_linear: bool | None = None
    unused_inputs: Sequence[str] = ()
    mixing_samples: Sequence[str] = ()
    groups: Mapping[str, ModelFacts] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(self.layers))
        object.__setattr__(self, "outputs", tuple(self.outputs))
        object.__setattr__(self, "unused_inputs", tuple(self.unused_inputs))
        object.__setattr__(self, "mixing_samples", tuple(self.mixing_samples))

    @cached_property
    def _by_path(self) -> dict[str, LayerFacts]:
        return {layer.path: layer for layer in self.layers}

    def layer(self, path: str) -> LayerFacts | None:
        """The layer with this path, if it is known."""
        return self._by_path.get(path)

    @property
    def last_layer(self) -> LayerFacts | None:
        """The layer that computes the output, if it is known and there is one output."""
        return self.layer(self.outputs[0]) if len(self.outputs) == 1 else None

    @property
    def first_layer(self) -> LayerFacts | None:
        """The first layer to be executed, if it is known."""
        return self.layers[0] if self.layers else None

    def of_group(self, group: str) -> ModelFacts:
        """The facts of a group; those of the whole training if it has none of its own."""
        return self.groups.get(group, self)

    def to_json(self) -> dict[str, Json]:
        """The facts as plain values, for JSON."""
        groups: dict[str, Json] = {name: each.to_json() for name, each in self.groups.items()}
        layers: list[Json] = [asdict(each) for each in self.layers]
        rest = asdict(replace(self, layers=[], groups={}))
        return {**rest, "layers": layers, "groups": groups}

    @classmethod
    def from_json(cls, values: Mapping[str, Json]) -> ModelFacts:
        """Parse the output of `to_json`; missing facts are unknown, unknown keys are ignored."""
        return cls(
            layers=[_parse(LayerFacts, each) for each in values.get("layers") or ()],
            outputs=values.get("outputs") or (),
            loss=_parse(LossFacts, values.get("loss") or {}),
            optimizer=_parse(OptimizerFacts, values.get("optimizer") or {}),
            targets_are_whole=values.get("targets_are_whole"),
            batch_size=values.get("batch_size"),
            precision=values.get("precision"),
            parameters=_parse(ParameterFacts, values.get("parameters") or {}),
            is_linear=values.get("is_linear"),
            unused_inputs=values.get("unused_inputs") or (),
            mixing_samples=values.get("mixing_samples") or (),
            groups={n: cls.from_json(x) for n, x in (values.get("groups") or {}).items()},
        )


def _parse(cls: type[T], values: Mapping[str, Json]) -> T:
    names = {each.name for each in fields(cls)}
    return cls(**{name: value for name, value in values.items() if name in names})
