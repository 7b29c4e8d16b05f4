"""When to measure: schedules and how they combine.

A schedule can be given in a short form: `10` (every 10th step),
`"epoch"` (once an epoch), `[1, 2, 100]` (these steps) or a function of the
step. The named ones combine with `|`, `&` and `~`:

>>> from gradwatch import schedule
>>> early_then_rarely = schedule.first(3) | schedule.every(100)
>>> [s for s in range(1, 301) if early_then_rarely.due(schedule.Moment(step=s))]
[1, 2, 3, 100, 200, 300]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import floor, log10
from typing import TypeAlias


@dataclass(frozen=True)
class Moment:
    """A training step, as schedules see it; everything is counted from 1."""

    step: int
    epoch: int = 1
    stands_for_epoch: bool = False
    """The one step of its epoch that "once an epoch" means: the last, or the
    first where the number of batches is not known in advance."""
    is_again: bool = False
    """The step is run once more, after later ones: everything is due, whatever the schedules say,
    except histograms and probes."""


@dataclass(frozen=True)
class Schedule:
    """A named condition on the moment."""

    name: str
    due: Callable[[Moment], bool]
    is_fixed: bool = False
    """Whether the moment alone decides, so that every process chooses the same steps. A function
    of the user may depend on anything."""
    period: int | None = None
    """The steps are multiples of this; 0 for one of each epoch, None if it is not so simple."""

    def __repr__(self) -> str:
        return self.name

    def __or__(self, other: Spec) -> Schedule:
        that = as_schedule(other)
        both = self.is_fixed and that.is_fixed
        return Schedule(f"({self} | {that})", lambda m: self.due(m) or that.due(m), both)

    def __and__(self, other: Spec) -> Schedule:
        that = as_schedule(other)
        both = self.is_fixed and that.is_fixed
        return Schedule(f"({self} & {that})", lambda m: self.due(m) and that.due(m), both)

    def __invert__(self) -> Schedule:
        return Schedule(f"~{self}", lambda m: not self.due(m), self.is_fixed)


Spec: TypeAlias = Schedule | int | str | Iterable[int] | Callable[[int], bool]


def every(n: int) -> Schedule:
    """Every n-th step: n, 2n, 3n, ..."""
    _require(n >= 1, f"every(n) needs n >= 1. Received: n={n}")
    return Schedule(f"every({n})", lambda m: m.step % n == 0, True, n)


def each_epoch(n: int = 1) -> Schedule:
    """Once in every n-th epoch.

    It is the epoch's last step; where the number of batches is not known in
    advance (a generator without `steps_per_epoch`) it is the first.
    """
    _require(n >= 1, f"each_epoch(n) needs n >= 1. Received: n={n}")
    return Schedule(f"each_epoch({n})", lambda m: m.stands_for_epoch and m.epoch % n == 0, True, 0)


def at(*steps: int) -> Schedule:
    """These steps."""
    wanted = frozenset(steps)
    for step in wanted:
        _require(
            isinstance(step, int) and step >= 1,
            f"Steps are whole numbers counted from 1. Received: {step!r}",
        )
    return Schedule(f"at{tuple(sorted(wanted))}", lambda m: m.step in wanted, True)


def first(n: int) -> Schedule:
    """The first n steps."""
    _require(n >= 1, f"first(n) needs n >= 1. Received: n={n}")
    return Schedule(f"first({n})", lambda m: m.step <= n, True)


def log_spaced(per_decade: int = 10) -> Schedule:
    """About `per_decade` steps between 10 and 100, between 100 and 1000, and so on."""
    _require(per_decade >= 1, f"log_spaced needs per_decade >= 1. Received: {per_decade}")

    def due(m: Moment) -> bool:
        if m.step < 1:  # Loops may count from 0.
            return False
        # The step is due if it is the nearest whole number to a power of 10^(1/per_decade).
        k = floor(log10(m.step) * per_decade)
        return any(round(10 ** (j / per_decade)) == m.step for j in (k, k + 1))

    return Schedule(f"log_spaced({per_decade})", due, True)


def never() -> Schedule:
    """No step at all."""
    return Schedule("never()", lambda m: False, True)


def as_schedule(spec: Spec) -> Schedule:
    """A schedule from any of its short forms.

    Raises:
        TypeError, ValueError: `spec` is none of them.
    """
    if isinstance(spec, Schedule):
        return spec
    if isinstance(spec, bool):
        raise TypeError(f"A schedule cannot be a bool. Received: {spec}")
    if isinstance(spec, int):
        return every(spec)
    if isinstance(spec, str):
        _require(spec == "epoch", f'The only schedule given as text is "epoch". Received: {spec!r}')
        return each_epoch()
    if callable(spec):
        return Schedule(getattr(spec, "__name__", "function"), lambda m: bool(spec(m.step)))
    if isinstance(spec, Iterable):
        return at(*spec)
    raise TypeError(
        'A schedule is a number of steps, "epoch", a list of steps, a function of the step or '
        f"one from gradwatch.schedule. Received: {spec!r} (of type {type(spec).__name__})"
    )


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
