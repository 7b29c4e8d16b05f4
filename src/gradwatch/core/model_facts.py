"""Facts about a model and its training, besides measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar

T = TypeVar("T", bound="LayerFacts | LossFacts | OptimizerFacts")


@dataclass(frozen=True)
class LayerFacts:
    """A layer; None where a fact is not known.

    Attributes:
        path: as in the layer's sites.
        class_name: such as `Dense`, `Conv2D`, `BatchNormalization`.
        activation: the name of the activation of its output: `relu`, `linear`, ...
        units: how many features or channels it returns.
        trainable: whether any of its variables is trained.
        dtype: the type that it computes in.
    """

    path: str
    class_name: str | None = None
    activation: str | None = None
    units: int | None = None
    trainable: bool | None = None
    dtype: str | None = None


@dataclass(frozen=True)
class LossFacts:
    """The loss function; None where a fact is not known.

    Attributes:
        name: in snake case: `mean_squared_error`, `sparse_categorical_crossentropy`, ...
        from_logits: whether it takes logits, rather than probabilities.
        is_nonnegative: whether it cannot be below 0 for targets in its domain; None to go by
            the name.
        reduction: `sum_over_batch_size`, `sum`, ...
        is_of_own_step: whether a training step of the user computes it. It need not fall
            then: in a GAN, it does not.
    """

    name: str | None = None
    from_logits: bool | None = None
    is_nonnegative: bool | None = None
    reduction: str | None = None
    is_of_own_step: bool | None = None


@dataclass(frozen=True)
class OptimizerFacts:
    """The optimizer; None where a fact is not known.

    Attributes:
        name: in lower case: `adam`, `sgd`, ...
        learning_rate: at the start of the training.
        is_scheduled: whether the learning rate changes by a schedule.
        loss_scale: at the start of the training; None without loss scaling.
    """

    name: str | None = None
    learning_rate: float | None = None
    is_scheduled: bool | None = None
    loss_scale: float | None = None


@dataclass(frozen=True)
class ModelFacts:
    """The facts about a model. A rule stays silent if a fact that it needs is missing.

    Attributes:
        layers: in the order of their execution; those inside others before these.
        outputs: the paths of the layers whose outputs enter the loss.
        loss: the loss function, if it is one loss on one output.
        optimizer: the optimizer.
        targets_are_whole: whether the targets are whole numbers.
        batch_size: how many samples a step is given.
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
        object.__setattr__(self, "_by_path", {layer.path: layer for layer in self.layers})

    def layer(self, path: str) -> LayerFacts | None:
        """The layer of that path, if it is known."""
        found: LayerFacts | None = self.__dict__["_by_path"].get(path)
        return found

    @property
    def last_layer(self) -> LayerFacts | None:
        """The layer that makes the output, if it is known and there is one output."""
        if len(self.outputs) == 1:
            return self.layer(self.outputs[0])
        return None

    @property
    def first_layer(self) -> LayerFacts | None:
        """The layer that is executed first, if it is known."""
        return self.layers[0] if self.layers else None

    def to_json(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {**asdict(self), "layers": [asdict(each) for each in self.layers]}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> ModelFacts:
        """The inverse of `to_json`; a fact that is missing there is unknown."""
        return cls(
            layers=[_known(LayerFacts, each) for each in values.get("layers") or ()],
            outputs=values.get("outputs") or (),
            loss=_known(LossFacts, values.get("loss") or {}),
            optimizer=_known(OptimizerFacts, values.get("optimizer") or {}),
            targets_are_whole=values.get("targets_are_whole"),
            batch_size=values.get("batch_size"),
            precision=values.get("precision"),
        )


def _known(cls: type[T], values: Mapping[str, Any]) -> T:
    names = {each.name for each in fields(cls)}
    return cls(**{name: value for name, value in values.items() if name in names})
