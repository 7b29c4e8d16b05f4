"""The rows of a run as `export` writes them, a piece at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gradwatch.core import EDGES, NONFINITE, STATISTICS, UPDATE_RATIO, VALUE, Site
from gradwatch.read import Run

AT_ONCE = 50_000
"""About how many rows are in memory at a time."""

Row = tuple[Any, ...]
_MOMENT = {"step": "BIGINT", "epoch": "BIGINT", "time": "DOUBLE"}
_WHAT = {"kind": "VARCHAR", "path": "VARCHAR"}
_WHENCE = {"rank": "INTEGER", "replica": "INTEGER", "micro_batch": "INTEGER"}

TABLES = ("summaries", "histograms", "losses", "numbers")


def columns_of(table: str) -> dict[str, str]:
    """The columns of a table, and their types in SQL."""
    own = {
        "summaries": {
            **_WHAT,
            **{n: "BIGINT" if each.is_count else "DOUBLE" for n, each in STATISTICS.items()},
            UPDATE_RATIO.name: "DOUBLE",
        },
        "histograms": {**_WHAT, "lower": "DOUBLE", "upper": "DOUBLE", "elements": "BIGINT"},
        "losses": {"path": "VARCHAR", VALUE.name: "DOUBLE"},
        "numbers": {**_WHAT, VALUE.name: "DOUBLE"},
    }
    return {**_MOMENT, **own[table], **_WHENCE}


_ORDER = "ORDER BY s.step, s.rank, s.micro_batch NULLS FIRST, n.number"
_FROM = """
    FROM (SELECT * FROM {table} WHERE step BETWEEN ? AND ? AND {ranks}) s
    JOIN (SELECT * FROM sites WHERE number IN (SELECT unnest(?::INTEGER[]))) n
    ON n.kind = s.kind AND n.path = s.path
"""


@dataclass(frozen=True)
class Wanted:
    """What of a run is to be exported.

    Attributes:
        table: one of `TABLES`.
        sites: of which sites.
        steps: the first and the last of these steps.
        rank: of which process; None for all.
    """

    table: str
    sites: Sequence[Site]
    steps: tuple[int, int]
    rank: int | None = None


def pieces(run: Run, wanted: Wanted) -> Iterator[tuple[float, list[Row]]]:
    """Rows in the order of steps, and what share of the work is done with them.

    They are asked for by stretches of steps, so that memory does not grow with the run.
    """
    place = {site: i for i, site in enumerate(run.sites())}
    numbers = [place[site] for site in wanted.sites]
    measured = run.steps(rank=wanted.rank)
    first, last = wanted.steps
    steps = measured[(measured >= first) & (measured <= last)].tolist()
    stride = max(1, AT_ONCE * max(len(measured), 1) // max(run.rows, 1))
    if wanted.table == "histograms":
        stride = max(1, stride // 32)  # of each site, a few dozen cells
    for start in range(0, len(steps), stride):
        stretch = steps[start : start + stride]
        bounds = (stretch[0], stretch[-1])
        rows = _ask(run, wanted, bounds, numbers)
        yield min(1.0, (start + stride) / len(steps)), rows


def _ask(run: Run, wanted: Wanted, bounds: tuple[int, int], numbers: list[int]) -> list[Row]:
    ranks = "true" if wanted.rank is None else f"rank = {int(wanted.rank)}"
    source = "histograms" if wanted.table == "histograms" else "summaries"
    joined = _FROM.format(table=source, ranks=ranks)
    moment = "s.step, s.epoch, s.time"
    whence = "s.rank, s.replica, s.micro_batch"
    parameters: list[Any] = [*bounds, numbers]
    if wanted.table == "summaries":
        statistics = ", ".join(f"s.{name}" for name in STATISTICS)
        ratio = "NULL"
        if any(site.kind == "update" for site in wanted.sites):
            ratio = "CASE WHEN w.l2 > 0 THEN s.l2 / w.l2 WHEN w.l2 = 0 THEN 'nan'::DOUBLE END"
            joined += f"""
                LEFT JOIN (SELECT rank, path, step, micro_batch, l2 FROM summaries
                WHERE kind = 'weight' AND step BETWEEN ? AND ? AND {ranks}) w
                ON s.kind = 'update' AND w.rank = s.rank AND w.path = s.path
                AND w.step = s.step AND w.micro_batch IS NOT DISTINCT FROM s.micro_batch
            """
            parameters += bounds
        what = f"{moment}, s.kind, s.path, {statistics}, {ratio}, {whence}"
    elif wanted.table == "histograms":
        what = f"{moment}, s.kind, s.path, s.cell, s.cell_count, {whence}"
    else:
        kind = "s.kind, " if wanted.table == "numbers" else ""
        what = f"{moment}, {kind}s.path, {VALUE.sql}, {whence}"
    more = ", s.cell" if wanted.table == "histograms" else ""
    rows = run.sql(f"SELECT {what} {joined} {_ORDER}{more}", parameters).fetchall()
    return [_with_edges(row) for row in rows] if wanted.table == "histograms" else rows


def _with_edges(row: Row) -> Row:
    """The cell's edges for its number; the one for what is not finite has none."""
    *before, cell, elements, rank, replica, micro_batch = row
    edges = (None, None) if cell == NONFINITE else (float(EDGES[cell]), float(EDGES[cell + 1]))
    return (*before, *edges, elements, rank, replica, micro_batch)
