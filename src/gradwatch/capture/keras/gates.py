"""The gates of recurrent layers, which share one kernel side by side."""

from __future__ import annotations

from typing import Any

# In the order in which Keras lays them out along the last axis.
GATES = {
    "LSTMCell": ("input", "forget", "cell", "output"),
    "ConvLSTMCell": ("input", "forget", "cell", "output"),
    "GRUCell": ("update", "reset", "candidate"),
}
GATED = ("kernel", "recurrent_kernel", "bias")


def gates_of(variable: Any, owner: Any) -> dict[str, tuple[int, int]]:
    """The named gates in a variable and their columns; none if it has none."""
    names = next((GATES[c.__name__] for c in type(owner).__mro__ if c.__name__ in GATES), ())
    width = variable.shape[-1] if len(variable.shape) else 0
    if not names or variable.name not in GATED or width % len(names):
        return {}
    size = width // len(names)
    return {name: (i * size, (i + 1) * size) for i, name in enumerate(names)}
