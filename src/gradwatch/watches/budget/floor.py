"""The steps that are measured whatever the budget allows, so that short trainings are seen."""

from bisect import bisect_left

START = 10
"""The interval that a budget begins with."""
FIRST = 20
"""The first steps, all of which are measured."""
DENSITY = 40
"""Later ones are measured so often that about as many were in the last half of the training."""
INTERVALS: list[int] = [n * 10**power for power in range(6) for n in (1, 2, 5)] + [10**6]
"""Those that a budget chooses from."""
SECONDS = 5.0
"""The most that the steps measured so far may have added to training for more of them to come."""
BLIND_SECONDS = 10.0
"""The same while it is not known what measuring adds: all the time that measured steps took."""


def is_in_floor(step: int) -> bool:
    """Whether a step, counted from 1, is one of them; the same in every process.

    They are the first 20, and then multiples of 2, 5, 10, 20, ...: 70 of 189 steps, 120 of 1,000,
    and 65 more for every tenfold.

    >>> [step for step in range(1, 30) if is_in_floor(step)][17:]
    [18, 19, 20, 22, 24, 26, 28]
    """
    return step % floor_interval(step) == 0


def is_evenly_spread(step: int) -> bool:
    """Whether a step is one of the floor, or one that a budget begins with.

    Processes that do not choose by the clock measure these, and so do compiled steps.
    """
    return step % START == 0 or is_in_floor(step)


def floor_steps() -> list[tuple[int, int]]:
    """The interval of the floor up to each of these steps, ascending, for compiled steps."""
    later = [(DENSITY * interval, interval) for interval in INTERVALS[1:-1]]
    return [(FIRST, 1), *later, (2**31 - 1, INTERVALS[-1])]


def floor_interval(steps: int) -> int:
    """The interval that the floor has after so many steps."""
    return 1 if steps <= FIRST else max(2, densest(steps / DENSITY))


def densest(least: float) -> int:
    """The densest interval that is not below `least`."""
    return INTERVALS[min(bisect_left(INTERVALS, least), len(INTERVALS) - 1)]
