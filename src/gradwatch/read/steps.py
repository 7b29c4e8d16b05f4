"""Steps, stretches of steps, and columns of steps."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Steps = NDArray[np.int64]
Values = NDArray[np.float64]
Stretch = tuple[int, int]
"""The first and the last step, both included."""

EVER: Stretch = (-(1 << 62), 1 << 62)


def within(steps: Steps, stretch: Stretch) -> Steps:
    return steps[(steps >= stretch[0]) & (steps <= stretch[1])]


@dataclass(frozen=True)
class Bucketing:
    """Which column a step falls into: `(step - origin) * columns // span`."""

    span: int
    origin: int = 0
    columns: int = 1

    def of(self, steps: Steps) -> Steps:
        return (steps - self.origin) * self.columns // self.span

    def sql(self) -> str:
        return f"(step - {self.origin}) * {self.columns} // {self.span}"


def by_width(steps: Steps, most: int) -> Bucketing:
    """Columns of one width: the narrowest of a few widths that makes at most so many columns.

    Columns begin at multiples of the width. So those of a run in progress stay the same
    until all of them become wider.
    """
    width = 1
    while np.unique(steps // width).size > most:
        # 1, 2, 3, 4, 6, 8, 12, 16, 24, ...
        power = 1 << (width.bit_length() - 1)
        width = power + power // 2 if width == power > 1 else 2 * power
    return Bucketing(width)
