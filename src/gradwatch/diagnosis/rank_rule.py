"""Rules that compare the ranks of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.finding import Finding, Severity, Symptom
from gradwatch.diagnosis.network_order import LayerOrder
from gradwatch.diagnosis.package_rules import load_package_rules
from gradwatch.diagnosis.rule import RULES, Limits, Rule, Threshold

if TYPE_CHECKING:
    from gradwatch.read import Run

RANK_RULES: dict[str, Rule] = {}

Row: TypeAlias = tuple[Any, ...]

_MAX_SECONDS_APART = 5.0
"""Rows of one step that are further apart in time belong to two trainings."""


class RankData:
    """The recordings of all ranks; rules query them with SQL, however many there are."""

    def __init__(self, run: Run, facts: ModelFacts) -> None:
        self.run = run
        self._facts = facts

    def query(self, query: str, *parameters: object) -> list[Row]:
        return self.run.sql(query, parameters).fetchall()

    def layer_order(self) -> LayerOrder:
        kinds = (Kind.OUTPUT, Kind.GRADIENT, Kind.WEIGHT)
        paths = [site.layer for kind in kinds for site in self.run.sites(kind)]
        return LayerOrder(self._facts.layers, paths)


def of_one_training(rows: str) -> str:
    """SQL that keeps the rows that can be compared across ranks.

    A rank that does not take part in a resumed training, or not yet, has rows of the previous one:
    they are older than the first rows that other ranks have of the new one. Ranks that train
    together reach a step at about the same time. `rows` is a table with `step`, `time`, `writer`
    and `attempt`.
    """
    return (
        "SELECT * EXCLUDE (begun, newest) FROM (SELECT *, max(begun) OVER (ORDER BY step RANGE "
        "BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS newest FROM (SELECT *, min(time) OVER "
        f"(PARTITION BY writer, attempt) AS begun FROM {rows})) "
        f"WHERE time >= newest - {_MAX_SECONDS_APART}"
    )


def path_is(name: str) -> str:
    """SQL condition: the path of a scalar is this name, in any part of the training."""
    return f"(path = '{name}' OR path LIKE '%/{name}')"


@dataclass(frozen=True)
class RankSymptom(Symptom):
    """What a rule sees when it compares ranks.

    `detected` is `since` if None. `until` is the last step at which it was seen, if it has gone
    away.
    """

    group: str = ""
    detected: int | None = None
    until: int | None = None


RankCheck: TypeAlias = Callable[[RankData, ModelFacts, Limits], Iterable[RankSymptom]]


def rank_rule(
    name: str, *, severity: Severity, remedy: str = "", thresholds: Mapping[str, Threshold]
) -> Callable[[RankCheck], RankCheck]:
    """Declare a function as a rule that compares the ranks of a run; arguments as in `rule`."""

    def declare(check: RankCheck) -> RankCheck:
        about = (check.__doc__ or "").partition("\n")[0]
        RANK_RULES[name] = Rule(name, check, severity, remedy, thresholds, (), about)
        return check

    return declare


def enumerate_ranks(ranks: Sequence[int], name: str = "rank") -> str:
    if len(ranks) == 1:
        return f"{name} {ranks[0]}"
    shown = [str(rank) for rank in ranks[:4]] + [f"{len(ranks) - 4} more"] * (len(ranks) > 4)
    return f"{name}s {', '.join(shown[:-1])} and {shown[-1]}"


def all_rules() -> dict[str, Rule]:
    """All rules by name, sorted: those of single steps and those that compare ranks.

    Those of installed packages are among them.

    Example:

    >>> from gradwatch.diagnosis import all_rules
    >>> all_rules()["dead-units"].thresholds["warn share"].value
    0.5
    """
    load_package_rules()
    return dict(sorted({**RULES, **RANK_RULES}.items()))


def facts_of_rules(findings: Iterable[Finding]) -> dict[str, dict[str, Any]]:
    """The facts of the rules that found something, by their names."""
    known = all_rules()
    # A run may have findings of rules that are not imported here.
    names = sorted({finding.rule for finding in findings} & known.keys())
    return {name: known[name].facts() for name in names}
