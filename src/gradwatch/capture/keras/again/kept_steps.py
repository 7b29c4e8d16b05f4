"""The last batches of a training, and copies of its state from before them."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from gradwatch.capture.keras.again.rerunner import Finite
from gradwatch.core import Moment

SHARE = 0.003
"""The part of the training time that copying the state may take."""
MOST_SHARE = 0.01
"""The same where batches are so large that it has to be copied more often."""
LEAST_STEPS = 8
"""Steps between two copies, at least."""
MOST_STEPS = 512
MOST_STATE, MOST_BATCHES = 128 << 20, 128 << 20
"""Bytes of a copy of the state, of which there are two, and of all kept batches."""
SPEED = {"cpu": 4e9, "gpu": 4e11}
"""Bytes a second at which a state is copied, at least."""


@dataclass(frozen=True)
class KeptBatch:
    moment: Moment
    batch: Any
    size: int


@dataclass(frozen=True)
class KeptState:
    """The state before a step, and whether each of its variables is finite."""

    step: int
    state: Any
    finite: Finite


class KeptSteps:
    """Keeps what is needed to run the last steps again, in bounded memory and time.

    There are two copies of the state at most, and all batches since the older one. The state is
    copied as soon as the time since the last copy is so long that copying is a small part of it.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.states: deque[KeptState] = deque()
        self.batches: deque[KeptBatch] = deque()
        self.finite_until = 0
        """The last step whose loss is known to be finite."""
        self.is_off = False
        """Whether nothing can be kept of this training."""
        self._clock = clock
        self._expected: deque[Moment] = deque()
        self._bytes = self._bytes_since = 0
        self._copied_at, self._cost = 0.0, 0.0
        self._addresses: set[int] = set()
        self._copies_batches = False

    def begin(self, moments: Sequence[Moment]) -> None:
        """These steps come next."""
        if self.is_off:
            return
        if self._expected:
            # Some were not run as expected: what follows is no continuation.
            self.forget()
        self._expected = deque(moments)

    def wants_state(self) -> bool:
        """Whether the state is to be copied before the next step."""
        if self.is_off or not self._expected:
            return False
        if not self.states:
            return self._is_affordable(SHARE)
        steps = self._expected[0].step - self.states[-1].step
        if 2 * self._bytes_since > MOST_BATCHES or steps >= MOST_STEPS:
            return self._is_affordable(MOST_SHARE)
        # The older copy is needed until all losses before the newer one are known.
        is_known = len(self.states) < 2 or self.states[-1].step <= self.finite_until
        return steps >= LEAST_STEPS and is_known and self._is_affordable(SHARE)

    def harmed_before(self) -> int | None:
        """A step before which variables stopped being finite, if the copies show that."""
        if len(self.states) < 2 or self.states[0].finite() == self.states[-1].finite():
            return None
        return self.states[-1].step

    def add_state(self, state: Any, finite: Finite, size: int, seconds: float, device: str) -> None:
        """Take a copy of the state before the next step, and how long it took to ask for it."""
        if size > MOST_STATE:
            self.switch_off()
            return
        self._cost = seconds + size / SPEED.get(device, SPEED["cpu"])
        self._copied_at = self._clock()
        self._bytes_since = 0
        self.states.append(KeptState(self._expected[0].step, state, finite))
        while len(self.states) > 2:
            self.states.popleft()
        self._drop_before(self.states[0].step)

    def note(self, batch: Any) -> None:
        """The next of the steps takes this batch."""
        if not self._expected:
            return
        moment = self._expected.popleft()
        if not self.states:
            return
        batch, size = self._own(batch)
        if not self.states:
            return
        self._bytes += size
        self._bytes_since += size
        self.batches.append(KeptBatch(moment, batch, size))
        if self._bytes > MOST_BATCHES or len(self.batches) > 3 * MOST_STEPS:
            # Copying the state was not affordable: only the newer copy is of use, if any.
            self.states.popleft()
            self._drop_before(self.states[0].step if self.states else moment.step + 1)

    def switch_off(self) -> None:
        """Nothing can be kept of this training."""
        self.is_off = True
        self.forget()

    def forget(self) -> None:
        self.states.clear()
        self.batches.clear()
        self._expected.clear()
        self._addresses.clear()
        self._bytes = self._bytes_since = 0

    def up_to(self, step: int) -> tuple[list[KeptState], list[KeptBatch]]:
        """What is kept to run the steps again up to this one; nothing if it is not kept."""
        states = [each for each in self.states if each.step <= step]
        batches = [each for each in self.batches if each.moment.step <= step]
        is_kept = states and batches and batches[-1].moment.step == step
        return (states, batches) if is_kept else ([], [])

    def _is_affordable(self, share: float) -> bool:
        return share * (self._clock() - self._copied_at) >= self._cost

    def _drop_before(self, step: int) -> None:
        while self.batches and self.batches[0].moment.step < step:
            dropped = self.batches.popleft()
            self._bytes -= dropped.size
            if self._addresses:
                self._addresses.difference_update(_addresses(keras.tree.flatten(dropped.batch)))

    def _own(self, batch: Any) -> tuple[Any, int]:
        """The batch, copied if its memory may be used for another, and its bytes."""
        leaves = keras.tree.flatten(batch)
        if self._copies_batches:
            batch = keras.tree.map_structure(_copied, batch)
        elif any(type(leaf) is np.ndarray for leaf in leaves):
            own = _addresses(leaves)
            if not self._addresses.isdisjoint(own):
                # A generator fills the same arrays again: those that were kept are overwritten.
                self._copies_batches = True
                self.forget()
                return batch, 0
            self._addresses.update(own)
        return batch, sum(_size(leaf) for leaf in leaves)


def _addresses(leaves: list[Any]) -> list[int]:
    return [leaf.__array_interface__["data"][0] for leaf in leaves if type(leaf) is np.ndarray]


def _copied(leaf: Any) -> Any:
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf


def _size(leaf: Any) -> int:
    size = getattr(leaf, "nbytes", None)
    if size is None and hasattr(leaf, "dtype") and hasattr(leaf.dtype, "size"):
        size = leaf.dtype.size * (leaf.shape.num_elements() or 0)
    return int(size or 0)
