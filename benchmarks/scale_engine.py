"""A distributed engine over the Parquet files of a very large run: Ray Data beside DuckDB.

Ray is not a dependency of gradwatch: `pip install 'ray[data]'` for this.
"""

import math
import os
import sys
import time

import common
import duckdb

import gradwatch

COLUMNS = ["rank", "kind", "path", "count", "sum", "sum_squares"]
SLOWEST = "the mean time of a step of each rank"
LARGEST = "the largest gradient of each tensor"


def with_duckdb(files):
    """The same two questions, asked of DuckDB."""
    database = duckdb.connect()
    database.execute("SET VARIABLE files = ?", [files])
    rows = "read_parquet(getvariable('files'))"
    answers, times = {}, {}
    for name, query in {
        SLOWEST: f"SELECT rank, avg(sum) FROM {rows} WHERE kind = 'scalar' GROUP BY rank",
        LARGEST: f"SELECT path, max(sum_squares) FROM {rows} WHERE kind = 'gradient' GROUP BY path",
    }.items():
        begun = time.perf_counter()
        answers[name] = dict(database.execute(query).fetchall())
        times[name] = time.perf_counter() - begun
    return answers, times


def start(ray, tries=5):
    """Start Ray, which gives up after half a minute: too short on a busy machine."""
    for left in reversed(range(tries)):
        try:
            ray.init(num_cpus=os.cpu_count(), include_dashboard=False, logging_level="ERROR")
            return
        except Exception:
            ray.shutdown()
            if not left:
                raise


def with_ray(files):
    """Asked of Ray Data, on a cluster of this machine's cores."""
    try:
        import ray
    except ImportError:
        raise SystemExit("This part needs Ray Data: pip install 'ray[data]'.") from None
    from ray.data.aggregate import Max, Mean
    from ray.data.expressions import col

    begun = time.perf_counter()
    start(ray)
    settings = ray.data.DataContext.get_current()
    settings.enable_progress_bars = False
    settings.default_hash_shuffle_parallelism = 4 * os.cpu_count()
    answers, times = {}, {"start": time.perf_counter() - begun}
    for name, kind, key, how in (
        (SLOWEST, "scalar", "rank", Mean("sum")),
        (LARGEST, "gradient", "path", Max("sum_squares")),
    ):
        begun = time.perf_counter()
        rows = ray.data.read_parquet(files).select_columns([key, "kind", how.get_target_column()])
        chosen = rows.filter(expr=col("kind") == kind)
        found = chosen.groupby(key).aggregate(how).take_all()
        answers[name] = {row[key]: row[how.name] for row in found}
        times[name] = time.perf_counter() - begun
        print(name, times[name], file=sys.stderr)
    version = ray.__version__
    ray.shutdown()
    return answers, times, version


def main():
    files = gradwatch.store.segment_files(sys.argv[1])
    expected, by_duckdb = with_duckdb(files)
    found, by_ray, version = with_ray(files)
    for name, answers in expected.items():
        assert found[name].keys() == answers.keys(), name
        far = max(
            abs(found[name][key] - value) / max(abs(value), 1e-300)
            for key, value in answers.items()
        )
        # A maximum is exact; a mean depends on the order in which is added up.
        assert far == 0 if name == LARGEST else far < 1e-12, (name, far)
    slow = max(expected[SLOWEST], key=expected[SLOWEST].get)
    path = next(iter(expected[LARGEST]))
    with gradwatch.open(sys.argv[1]) as run:
        largest = float(run.series("gradient", path, "l2")[1].max())
    assert math.isclose(largest, math.sqrt(expected[LARGEST][path]), rel_tol=1e-15)
    common.answer(
        {
            "engine": f"Ray Data {version}",
            "files": len(files),
            "slowest rank": slow,
            "groups": {name: len(answers) for name, answers in expected.items()},
            "duckdb s": by_duckdb,
            "ray s": by_ray,
        }
    )


if __name__ == "__main__":
    main()
