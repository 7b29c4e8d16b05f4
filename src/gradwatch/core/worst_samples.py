"""The names of the numbers about the samples of a batch, and what they say."""

from collections.abc import Mapping
from dataclasses import dataclass

SAMPLES, SAMPLE_MEDIAN = "samples", "median"
"""The number of samples, and their median loss."""


@dataclass(frozen=True)
class WorstSample:
    """A sample of a batch.

    Attributes:
        index: its place in the batch, counted from 0.
        loss: its loss.
        name: its number in the data, as the loop gave it; None if it gave none.
    """

    index: int
    loss: float
    name: int | None = None

    def __str__(self) -> str:
        place = f"sample {self.index} of the batch"
        return place if self.name is None else f"sample {self.name} ({place})"


def sample_path(rank: int, what: str) -> str:
    """The path of the `index`, `loss` or `name` of a sample; the worst has rank 1."""
    return f"{rank}/{what}"


def worst_in(numbers: Mapping[str, float]) -> list[WorstSample]:
    """The samples that numbers by path tell of, the worst first.

    >>> from gradwatch.core import worst_in
    >>> [str(sample) for sample in worst_in({"1/index": 17.0, "1/loss": 93.1, "1/name": 40.0})]
    ['sample 40 (sample 17 of the batch)']
    """
    found: list[WorstSample] = []
    while (index := numbers.get(sample_path(len(found) + 1, "index"))) is not None:
        rank = len(found) + 1
        name = numbers.get(sample_path(rank, "name"))
        loss = numbers.get(sample_path(rank, "loss"), float("nan"))
        if index < 0:
            break  # The batch has fewer samples.
        found.append(WorstSample(int(index), loss, None if name is None else int(name)))
    return found
