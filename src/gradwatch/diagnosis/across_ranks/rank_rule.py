"""What a rule about ranks is given, and what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from gradwatch.core import Kind, ModelFacts, Site, SiteInfo
from gradwatch.diagnosis.finding import Severity, Symptom
from gradwatch.diagnosis.limits import Limits
from gradwatch.diagnosis.network_order import LayerOrder
from gradwatch.diagnosis.rule import Rule, Threshold

RANK_RULES: dict[str, Rule] = {}
"""The rules that compare ranks, by name."""

_RESTART = 5.0
"""Seconds that rows of one step may be apart without being of two trainings."""


class RankedRun(Protocol):
    """What is asked of a run of several ranks."""

    @property
    def ranks(self) -> Sequence[int]:
        """The processes that have recorded it."""

    @property
    def infos(self) -> Sequence[SiteInfo]:
        """The sites in network order, and what is known of them."""

    def sites(self, kind: Kind | str | None = None) -> Sequence[Site]:
        """What is recorded, in network order."""

    def sql(self, query: str, parameters: Sequence[Any] = ()) -> Any:
        """Ask in SQL; what it returns has `fetchall()`."""


class RankData:
    """The ranks of a run side by side: a rule asks in SQL, whatever their number.

    Args:
        run: what they have recorded.
        facts: what is known of the model.
    """

    def __init__(self, run: RankedRun, facts: ModelFacts) -> None:
        self.run = run
        self._facts = facts

    def ask(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """The rows that a query yields."""
        rows: list[tuple[Any, ...]] = self.run.sql(query, parameters).fetchall()
        return rows

    def order(self) -> LayerOrder:
        """The order in which layers are executed, as far as it is known."""
        kinds = (Kind.OUTPUT, Kind.GRADIENT, Kind.WEIGHT)
        paths = [site.layer for kind in kinds for site in self.run.sites(kind)]
        return LayerOrder(self._facts.layers, paths)


def of_one_training(rows: str) -> str:
    """In SQL, those of some rows that can be compared across ranks.

    A rank that a resumed training does not have, or not yet, has left rows of the one before:
    they are older than the first that others have of the new one. Ranks that train in step are
    at a step at about the same time.

    Args:
        rows: a table with `step`, `time`, `writer` and `attempt`.
    """
    return (
        "SELECT * EXCLUDE (begun, newest) FROM (SELECT *, max(begun) OVER (ORDER BY step RANGE "
        "BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS newest FROM (SELECT *, min(time) OVER "
        f"(PARTITION BY writer, attempt) AS begun FROM {rows})) WHERE time >= newest - {_RESTART}"
    )


@dataclass(frozen=True)
class RankSymptom(Symptom):
    """What a rule sees in ranks.

    Attributes:
        group: the part of the training that it is about.
        detected: the step at which it could be known; `since` if None.
        until: the last step at which it was so, if it has gone away.
    """

    group: str = ""
    detected: int | None = None
    until: int | None = None


RankCheck: TypeAlias = Callable[[RankData, ModelFacts, Limits], Iterable[RankSymptom]]


def rank_rule(
    name: str, *, severity: Severity, remedy: str = "", thresholds: Mapping[str, Threshold]
) -> Callable[[RankCheck], RankCheck]:
    """Make a function a rule about ranks, which is asked of runs that have several.

    Args:
        name: what its findings are known by.
        severity: of its findings, unless a symptom has its own.
        remedy: what to do, unless a symptom has its own.
        thresholds: the numbers that it goes by.
    """

    def declare(check: RankCheck) -> RankCheck:
        about = (check.__doc__ or "").partition("\n")[0]
        RANK_RULES[name] = Rule(name, check, severity, remedy, thresholds, (), about)
        return check

    return declare


def in_words(ranks: Sequence[int], name: str = "rank") -> str:
    """Some ranks by their numbers.

    >>> from gradwatch.diagnosis.across_ranks.rank_rule import in_words
    >>> in_words([2]), in_words([0, 1]), in_words([1, 2, 3, 4, 5, 6])
    ('rank 2', 'ranks 0 and 1', 'ranks 1, 2, 3, 4 and 2 more')
    """
    if len(ranks) == 1:
        return f"{name} {ranks[0]}"
    shown = [str(rank) for rank in ranks[:4]] + [f"{len(ranks) - 4} more"] * (len(ranks) > 4)
    return f"{name}s {', '.join(shown[:-1])} and {shown[-1]}"


def capital(text: str) -> str:
    """The text with a capital letter in front."""
    return text[:1].upper() + text[1:]
