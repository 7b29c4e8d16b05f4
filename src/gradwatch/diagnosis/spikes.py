"""Spikes of the loss: where each began, how high it was, and when the loss was back."""

import math
from dataclasses import dataclass, field

from gradwatch.core import Jump, Jumps, Site, WorstSample

MOST = 64
"""Spikes that are kept; the first ones."""
BACK = 0.2
"""Of the height: a loss that is no further from its level is back."""
BACK_DEVIATIONS = 4.0
"""Of the noise; the same."""
IN_A_ROW = 2
"""Losses that must be back: one may be low by chance."""
LASTING = 32
"""Losses after which the level that it has jumped to is the level."""


@dataclass
class Spike:
    """A jump of the loss, and what came after it.

    Attributes:
        step: the step of the jump.
        loss: the loss in it.
        jump: how far it is from its course.
        before: the last step before it whose loss is known.
        peak: the highest loss of the spike.
        losses: those since the jump, while it lasts.
        recovered: the first step at which the loss was back; None if it is not yet.
        end: the last step that belongs to it, or has shown how it ends; None while it goes on.
        samples: of its batch, the worst first, if their losses are known; and their median loss.
        moved: what else was unusual, see `what_moved`; kept here, because measurements are not.
    """

    step: int
    loss: float
    jump: Jump
    before: int
    peak: float
    losses: list[float] = field(default_factory=list)
    recovered: int | None = None
    end: int | None = None
    samples: tuple[WorstSample, ...] = ()
    sample_median: float = math.nan
    moved: tuple[str, list[Site], dict[str, float | str]] = field(
        default_factory=lambda: ("", [], {})
    )

    @property
    def is_lasting(self) -> bool:
        """Whether the loss has stayed where it has jumped to, or has become NaN or infinite."""
        return self.end is not None and self.recovered is None

    def is_back(self, loss: float, initial: float) -> bool:
        """Whether a loss is at the level before the spike, or nearer to it than to the start's."""
        level = self.jump.level
        return loss < max(level + BACK_DEVIATIONS * self.jump.noise, (level + initial) / 2)


class Spikes:
    """Follows the losses of all steps, and keeps the spikes among them.

    `count` is that of all spikes, and `open` the one that goes on.
    """

    def __init__(self) -> None:
        self.kept: list[Spike] = []
        self.count = 0
        self._jumps = Jumps()
        self.open: Spike | None = None
        self._step = 0
        self._back: list[tuple[int, float]] = []
        """The newest losses that are back."""

    def add(self, step: int, loss: float) -> None:
        """Take the loss of the next step."""
        if self.open is not None:
            self._follow(self.open, step, loss)
        elif (jump := self._jumps.add(loss)) is not None:
            self.open = Spike(step, loss, jump, self._step, loss, [loss])
            self.count += 1
            if len(self.kept) < MOST:
                self.kept.append(self.open)
        self._step = step

    def _follow(self, spike: Spike, step: int, loss: float) -> None:
        if not math.isfinite(loss):
            self._close(spike, step)
            return
        spike.losses.append(loss)
        spike.peak = max(spike.peak, loss)
        level, noise = spike.jump.level, spike.jump.noise
        if loss <= level + max(BACK_DEVIATIONS * noise, BACK * (spike.peak - level)):
            self._back.append((step, loss))
        else:
            self._back = []
        if len(self._back) == IN_A_ROW:
            spike.recovered = self._back[0][0]
            # The losses of the spike are no part of the course.
            self._jumps.leave()
            for _, back in self._back:
                self._jumps.add(back)
            self._close(spike, step)
        elif len(spike.losses) > LASTING:
            self._jumps.forget()
            self._close(spike, step)

    def _close(self, spike: Spike, step: int) -> None:
        spike.end = step
        self.open, self._back = None, []
