"""A machine that trains in no time: a clock, a device that may lag behind, and sinks."""

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from gradwatch.core.schedule import Moment
from gradwatch.watches.budget import Pacer


@dataclass
class Machine:
    """What steps and measuring cost on it, in seconds.

    Attributes:
        step: the work of a step on the device.
        added: what measuring adds to it on the device.
        sinks: what writing a reading takes, on another thread.
        contention: how much of that is taken away from training.
        lag: by how many steps the device may be behind the host.
        noise: of steps, relative to their work.
        compiling: what the first measured step takes longer.
    """

    step: float = 0.01
    added: float = 0.0
    sinks: float = 0.0
    contention: float = 1.0
    lag: int = 0
    noise: float = 0.0
    compiling: float = 0.0
    now: float = 0.0
    steps: int = 0
    measured: list = field(default_factory=list)
    under_way: deque = field(default_factory=deque)
    _free: float = 0.0
    _written: float = 0.0

    def __post_init__(self):
        self._rng = np.random.default_rng(0)
        self.hangs = False

    @property
    def true_cost(self):
        """What a measured step adds to training, all in all."""
        return self.added + self.contention * self.sinks

    def run(self, is_measured):
        """One step, as the training thread lives it."""
        self.steps += 1
        work = self.step * (1 + self.noise * self._rng.gamma(2.0, 0.5))
        if is_measured:
            work += self.added + (0 if self.measured else self.compiling)
            self.measured.append(self.steps)
        start = max(self.now, self._free)
        # Both at once: the writer goes on at its pace, training is slowed down.
        both = min(max(0.0, self._written - start), work)
        finished = start + work + self.contention * both
        self._free = finished
        self.under_way.append(finished)
        if is_measured:
            self._written = max(finished, self._written) + self.sinks
        while len(self.under_way) > self.lag:
            self.now = max(self.now, self.under_way.popleft())
        self.now += 1e-5

    def wait_for_device(self):
        """The end of an epoch: its metrics are fetched."""
        self.now = max(self.now, self._free)
        self.under_way.clear()

    def is_quiet(self):
        return not self.hangs and self._written <= self.now


def train(machine, steps, budget=0.01, per_epoch=10**9, validation=0.0, stall=None, pacer=None):
    """Train for so many steps; the pacer chooses those that are measured."""
    pacer = pacer or Pacer(budget, machine.is_quiet, clock=lambda: machine.now)
    for _ in range(steps):
        place = machine.steps % per_epoch
        if place == 0:
            machine.wait_for_device()
            machine.now += validation
            pacer.pause()
        step = machine.steps + 1
        moment = Moment(step, step // per_epoch + 1, stands_for_epoch=place == per_epoch - 1)
        is_due = pacer.schedule.due(moment)
        pacer.tick([moment], is_due, counts=not moment.stands_for_epoch)
        machine.run(is_due)
        if stall and step % stall[0] == 0:
            machine.now += stall[1]
    return pacer
