"""What a program is: data, network, loss, optimizer, and perhaps one fault. Plain data."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

HALVES = ("tuning", "test")
# Of 20,000 the one with which every kind of fault is spread most evenly over the halves.
SALT = 10425


@dataclass(frozen=True)
class Fault:
    """What is wrong with a program, and what a good diagnosis says of it.

    Attributes:
        kind: one of `kinds.KINDS`.
        symptoms: names of the rules that name it rightly; those of its kind if None.
        layer: the layers any of which is the first bad one; None where that is not defined.
        step: the first step with a value that is not finite, where that is what it is.
        confirm: what must be measured for it to count as faulty, see `outcome.py`.
        visible: whether gradients or outputs show it; that of its kind if None.
    """

    kind: str
    symptoms: tuple[str, ...] | None = None
    layer: tuple[str, ...] | None = None
    step: int | None = None
    confirm: str = "score"
    visible: bool | None = None


@dataclass(frozen=True)
class Program:
    """A training program, from parts by name. `learns` is the score a healthy one reaches."""

    name: str
    data: str = "digits"
    data_options: Mapping[str, Any] = field(default_factory=dict)
    network: str = "mlp"
    options: Mapping[str, Any] = field(default_factory=dict)
    loss: str = "sparse_categorical_crossentropy"
    loss_options: Mapping[str, Any] = field(default_factory=dict)
    optimizer: str = "adam"
    rate: Any = 3e-3
    optimizer_options: Mapping[str, Any] = field(default_factory=dict)
    batch: int = 32
    size: int = 640
    steps: int = 120
    policy: str = "float32"
    fit: Mapping[str, Any] = field(default_factory=dict)
    learns: float = 0.5
    fault: Fault | None = None
    base: str | None = None

    @property
    def half(self) -> str:
        """The half of the benchmark that it is in: by its name alone, so it never moves."""
        digest = hashlib.sha256(f"{SALT} {self.name}".encode()).digest()
        return HALVES[digest[0] % 2]

    def but(self, name: str, **changes: Any) -> Program:
        """This program with changes; mappings are merged into, all else is replaced."""
        merged = {
            key: {**old, **value} if isinstance(old := getattr(self, key), Mapping) else value
            for key, value in changes.items()
        }
        return replace(self, name=name, **merged)


def faulty(base: Program, name: str, fault: Fault, **changes: Any) -> Program:
    """A healthy program with one thing wrong."""
    return base.but(name, fault=fault, base=base.name, **changes)
