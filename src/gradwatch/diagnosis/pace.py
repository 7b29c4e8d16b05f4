"""When the rules are asked about measurements that follow each other closely."""

_CALM = 32
"""Observations without a sign of trouble, after which the rules are asked one step more rarely."""
_LONGEST = 10
"""Steps from one time to the next, at most."""


class Pace:
    """Decides at which observations the rules are asked.

    At the start, and after a sign of trouble, at each; then ever more rarely, up to every 10th
    step. What is measured every 10 steps or more rarely is always asked about, whatever losses come
    between: those are asked about by themselves. This depends on the steps and on what was
    observed, never on the time: the rules are asked about a recorded run at the same steps as
    during training.

    `is_behind` says whether something has been observed since the rules were last asked.

    Example:

    >>> from gradwatch.diagnosis.pace import Pace
    >>> pace = Pace()
    >>> asked = [step for step in range(1, 1001) if pace.is_due(step)]
    >>> asked[:3], asked[-3:], len(asked)
    ([1, 2, 3], [978, 988, 998], 161)
    """

    def __init__(self) -> None:
        self.is_behind = False
        self._calm = 0
        self._asked = self._asked_measured = 0

    def alarm(self) -> None:
        """There is a sign of trouble."""
        self._calm = 0

    def is_due(self, step: int, *, is_measured: bool = True) -> bool:
        """Whether to ask the rules, now that a measurement or a loss of this step was observed."""
        gap = min(1 + self._calm // _CALM, _LONGEST)
        self._calm += 1
        last = self._asked_measured if is_measured else self._asked
        # A step may be observed in parts, and again after later ones.
        self.is_behind = gap > 1 and last <= step < last + gap
        if not self.is_behind:
            self._asked = step
            if is_measured:
                self._asked_measured = step
        return not self.is_behind
