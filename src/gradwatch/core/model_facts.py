"""Facts about a model and its training that are not measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import TypeVar

from gradwatch.util import Json

T = TypeVar("T", bound="LayerFacts | LossFacts | OptimizerFacts")


@dataclass(frozen=True)
class LayerFacts:
    """A layer; unknown facts are None.

    `path` is that of the layer's sites, `class_name` such as `Conv2D`, `activation` such as `relu`.
    `units` is the number of features or channels that it returns. It is `trainable` if any of its
    variables is, and `dtype` is that of its computation.
    """

    path: str
    class_name: str | None = None
    activation: str | None = None
    units: int | None = None
    trainable: bool | None = None
    dtype: str | None = None


@dataclass(frozen=True)
class LossFacts:
    """The loss; unknown facts are None.

    `name` is in snake case: `mean_squared_error`. `is_nonnegative` is about valid targets; None to
    decide by the name. A loss `is_of_own_step` if a custom training step computes it: it need not
    fall, for example that of two adversarial networks.
    """

    name: str | None = None
    from_logits: bool | None = None
    is_nonnegative: bool | None = None
    reduction: str | None = None
    is_of_own_step: bool | None = None


@dataclass(frozen=True)
class OptimizerFacts:
    """The optimizer, its name in lower case; unknown facts are None.

    `learning_rate` and `loss_scale` are initial values; without loss scaling, the latter is None.
    """

    name: str | None = None
    learning_rate: float | None = None
    is_scheduled: bool | None = None
    loss_scale: float | None = None


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

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(self.layers))
        object.__setattr__(self, "outputs", tuple(self.outputs))

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

    def to_json(self) -> dict[str, Json]:
        """The facts as plain values, for JSON."""
        return {**asdict(self), "layers": [asdict(each) for each in self.layers]}

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
        )


def _parse(cls: type[T], values: Mapping[str, Json]) -> T:
    names = {each.name for each in fields(cls)}
    return cls(**{name: value for name, value in values.items() if name in names})
