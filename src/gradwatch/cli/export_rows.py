"""The rows that `export` writes, in chunks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gradwatch.core import EDGES, NONFINITE, STATISTICS, UPDATE_RATIO, VALUE, Site
from gradwatch.read import Run

CHUNK_ROWS = 50_000
"""The number of rows in memory at a time, roughly."""

Row = tuple[Any, ...]
_TIME = {"step": "BIGINT", "epoch": "BIGINT", "time": "DOUBLE"}
_SITE = {"kind": "VARCHAR", "path": "VARCHAR"}
_PROCESS = {"rank": "INTEGER", "replica": "INTEGER", "micro_batch": "INTEGER"}

TABLES = ("summaries", "histograms", "losses", "numbers")


def columns_of(table: str) -> dict[str, str]:
    """The columns of a table, and their types in SQL."""
    own = {
        "summaries": {
            **_SITE,
            **{n: "BIGINT" if each.is_count else "DOUBLE" for n, each in STATISTICS.items()},
            UPDATE_RATIO.name: "DOUBLE",
        },
        "histograms": {**_SITE, "lower": "DOUBLE", "upper": "DOUBLE", "elements": "BIGINT"},
        "losses": {"path": "VARCHAR", VALUE.name: "DOUBLE"},
        "numbers": {**_SITE, VALUE.name: "DOUBLE"},
    }
    return {**_TIME, **own[table], **_PROCESS}


_ORDER = "ORDER BY s.step, s.rank, s.micro_batch NULLS FIRST, n.number"
_FROM = """
    FROM (SELECT * FROM {table} WHERE step BETWEEN ? AND ? AND {ranks}) s
    JOIN (SELECT * FROM sites WHERE number IN (SELECT unnest(?::INTEGER[]))) n
    ON n.kind = s.kind AND n.path = s.path
"""


@dataclass(frozen=True)
class ExportSelection:
    """The part of a run to export; of all ranks if `rank` is None.

    `table` is one of `TABLES`; `steps` are the first and the last step.
    """

    table: str
    sites: Sequence[Site]
    steps: tuple[int, int]
    rank: int | None = None


def row_chunks(run: Run, selection: ExportSelection) -> Iterator[tuple[float, list[Row]]]:
    """Rows in the order of steps, each chunk with the fraction of the work done.

    They are queried by ranges of steps, so that memory does not grow with the run.
    """
    place = {site: i for i, site in enumerate(run.sites())}
    numbers = [place[site] for site in selection.sites]
    measured = run.steps(rank=selection.rank)
    first, last = selection.steps
    steps = measured[(measured >= first) & (measured <= last)].tolist()
    stride = max(1, CHUNK_ROWS * max(len(measured), 1) // max(run.rows, 1))
    if selection.table == "histograms":
        stride = max(1, stride // 32)  # each site has a few dozen cells
    for start in range(0, len(steps), stride):
        chunk = steps[start : start + stride]
        bounds = (chunk[0], chunk[-1])
        rows = _query(run, selection, bounds, numbers)
        yield min(1.0, (start + stride) / len(steps)), rows


def _query(
    run: Run, selection: ExportSelection, bounds: tuple[int, int], numbers: list[int]
) -> list[Row]:
    ranks = "true" if selection.rank is None else f"rank = {int(selection.rank)}"
    source = "histograms" if selection.table == "histograms" else "summaries"
    joined = _FROM.format(table=source, ranks=ranks)
    moment = "s.step, s.epoch, s.time"
    process = "s.rank, s.replica, s.micro_batch"
    parameters: list[Any] = [*bounds, numbers]
    if selection.table == "summaries":
        statistics = ", ".join(f"s.{name}" for name in STATISTICS)
        ratio = "NULL"
        if any(site.kind == "update" for site in selection.sites):
            ratio = "CASE WHEN w.l2 > 0 THEN s.l2 / w.l2 WHEN w.l2 = 0 THEN 'nan'::DOUBLE END"
            joined += f"""
                LEFT JOIN (SELECT rank, path, step, micro_batch, l2 FROM summaries
                WHERE kind = 'weight' AND step BETWEEN ? AND ? AND {ranks}) w
                ON s.kind = 'update' AND w.rank = s.rank AND w.path = s.path
                AND w.step = s.step AND w.micro_batch IS NOT DISTINCT FROM s.micro_batch
            """
            parameters += bounds
        columns = f"{moment}, s.kind, s.path, {statistics}, {ratio}, {process}"
    elif selection.table == "histograms":
        columns = f"{moment}, s.kind, s.path, s.cell, s.cell_count, {process}"
    else:
        kind = "s.kind, " if selection.table == "numbers" else ""
        columns = f"{moment}, {kind}s.path, {VALUE.sql}, {process}"
    more = ", s.cell" if selection.table == "histograms" else ""
    rows = run.sql(f"SELECT {columns} {joined} {_ORDER}{more}", parameters).fetchall()
    return [_with_edges(row) for row in rows] if selection.table == "histograms" else rows


def _with_edges(row: Row) -> Row:
    """The edges of the cell instead of its number; the cell of NaN and Inf has none."""
    *before, cell, elements, rank, replica, micro_batch = row
    edges = (None, None) if cell == NONFINITE else (float(EDGES[cell]), float(EDGES[cell + 1]))
    return (*before, *edges, elements, rank, replica, micro_batch)
