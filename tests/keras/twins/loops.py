"""A random hand-written training loop, as the source text of a program."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Loop:
    """A loop as source text: a function `train(make, sees, change)`.

    `make` gives a monitor, or is None for a bare training; `sees` is whether that watches outputs;
    `change` is applied to each initial weight.
    """

    body: str
    is_exact: bool
    """Whether nothing is compiled by XLA, which may fuse a measured step differently."""

    def __str__(self) -> str:
        return self.body
