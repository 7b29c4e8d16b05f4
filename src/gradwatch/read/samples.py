"""The worst samples of batches, from the numbers that were recorded of them."""

from collections.abc import Mapping

from gradwatch.core import WorstSample, worst_in
from gradwatch.read.steps import Steps, Values


def worst_by_step(numbers: Mapping[str, tuple[Steps, Values]]) -> dict[int, list[WorstSample]]:
    """The worst samples of steps, from series of numbers by path."""
    by_step: dict[int, dict[str, float]] = {}
    for path, (steps, values) in numbers.items():
        for step, value in zip(steps.tolist(), values.tolist(), strict=True):
            by_step.setdefault(step, {})[path] = value
    return {step: worst_in(by_step[step]) for step in sorted(by_step)}
