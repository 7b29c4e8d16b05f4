"""A thousand runs' Parquet at once, by the very programs that docs/remote.md shows."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import gradwatch
from gradwatch.core import Kind
from tests.statistics_truth import TRUTH
from tests.store.recorded import SITES, Recorder, array

DOCS = Path(__file__).parents[3] / "docs" / "remote.md"
DISTINCT, RUNS = 10, 1000
SOME = [site for site in SITES if site.path == "net/dense/kernel"]
SITE = next(site for site in SOME if site.kind == Kind.GRADIENT)


def last_step(number):
    return 4 + number % 3


def attempt_of(number, step):
    """The tensors of a run are those of this attempt; every second one was resumed at step 3."""
    return number + 100 if number % 2 and step >= 3 else number


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A thousand runs: ten that were recorded, and copies of them."""
    home = tmp_path_factory.mktemp("many") / "runs"
    for number in range(DISTINCT):
        place = home / f"run-{number}"
        last = last_step(number) + (number % 2)  # the first attempt went further
        Recorder(place, attempt=number, sites=SOME).write(range(1, last + 1)).close()
        if number % 2:
            again = Recorder(place, attempt=number + 100, sites=SOME, first_step=3)
            again.write(range(3, last_step(number) + 1)).close()
    for number in range(DISTINCT, RUNS):
        shutil.copytree(home / f"run-{number % DISTINCT}", home / f"run-{number}")
    return home


def true_maxima():
    """By run, the largest L2 norm of the gradient over its valid steps."""
    largest = [
        max(
            TRUTH["l2"](array(SITE, step, attempt_of(number, step)))
            for step in range(1, last_step(number) + 1)
        )
        for number in range(DISTINCT)
    ]
    return {f"run-{number}": largest[number % DISTINCT] for number in range(RUNS)}


def example(heading, **names):
    """Runs the program below a heading of the documentation; the variables it leaves."""
    text = DOCS.read_text()
    code = re.search(rf"^### {heading}\n.*?```python\n(.*?)```", text, re.S | re.M)[1]
    for shown, real in names.items():
        assert f'"{shown}"' in code
        code = code.replace(f'"{shown}"', repr(str(real)))
    scope = {}
    exec(compile(code, f"{DOCS.name}: {heading}", "exec"), scope)
    return scope


def check(found):
    true = true_maxima()
    found = {Path(run).name: l2 for run, l2 in found.items()}
    assert found.keys() == true.keys()
    np.testing.assert_allclose(
        [found[name] for name in true], list(true.values()), rtol=1e-6, err_msg="max l2"
    )


def test_the_files_of_a_thousand_runs_are_those_that_their_manifests_name(home):
    stray = home / "run-0" / "segments"
    shutil.copy(next(stray.glob("*.summaries.*")), stray / "copy.parquet")
    files = gradwatch.store.segment_files(home)
    assert len(files) == sum(2 if number % 2 else 1 for number in range(RUNS))
    assert not any("copy" in file for file in files)
    assert len(set(files)) == len(files)
    with pytest.raises(ValueError, match="There are the tables"):
        gradwatch.store.segment_files(home, "numbers")


def test_duckdb_reads_a_thousand_runs_at_once(home):
    scope = example("DuckDB", runs=home)
    check(dict(scope["largest"].fetchall()))
    # The rows that count are the reader's.
    rows = scope["database"].sql("select run, count(*) from current group by run").fetchall()
    counted = {Path(run).name: count for run, count in rows}
    for number in range(DISTINCT):
        run = gradwatch.open(home / f"run-{number}")
        assert run.sql("select count(*) from summaries").fetchall() == [(counted[run.name],)]


def test_polars_reads_a_thousand_runs_at_once(home):
    pytest.importorskip("polars")
    scope = example("Polars", runs=home)
    largest = scope["largest"]
    check(dict(zip(largest["run"].to_list(), largest["l2"].to_list(), strict=True)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_ray_data_reads_a_thousand_runs_at_once(home):
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'ray[data]'")
    pytest.importorskip("ray.data", reason="Ray Data is not installed: pip install 'ray[data]'")
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    try:
        largest = example("Ray Data", runs=home)["largest"]
    finally:
        ray.shutdown()
    check(dict(zip(largest["run"], largest["l2"], strict=True)))


@pytest.mark.slow
def test_spark_reads_a_thousand_runs_at_once(home, monkeypatch):
    sql = pytest.importorskip("pyspark.sql", reason="Spark is not installed: pip install pyspark")
    if shutil.which("java") is None:
        pytest.skip(
            "Spark needs Java, which is not installed: apt-get install default-jre-headless"
        )
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "4").getOrCreate()
    try:
        spark.sparkContext.setLogLevel("ERROR")
        largest = example("Spark", runs=home)["largest"].collect()
    finally:
        spark.stop()
    check({row["run"]: row["l2"] for row in largest})


def test_polars_reads_runs_from_s3(home, s3, server, monkeypatch):
    polars = pytest.importorskip("polars")
    for number in range(3):
        gradwatch.maintain.upload(home / f"run-{number}", f"{s3}/runs/run-{number}")
    files = gradwatch.store.segment_files(f"{s3}/runs")
    assert len(files) == 4
    assert all(file.startswith(f"{s3}/runs/run-") for file in files)
    options = {
        "aws_endpoint_url": server,
        "aws_allow_http": "true",
        "aws_access_key_id": "somebody",
        "aws_secret_access_key": "very-secret",
        "aws_region": "us-east-1",
    }
    rows = polars.scan_parquet(files, storage_options=options).collect()
    local = polars.scan_parquet(
        [f for n in range(3) for f in gradwatch.store.segment_files(home / f"run-{n}")]
    ).collect()
    order = ["writer", "attempt", "site", "step"]
    assert rows.sort(order).equals(local.sort(order), null_equal=True)
    assert len(rows) > 0


def test_a_damaged_manifest_is_said_and_the_others_are_listed(tmp_path):
    for name in ("a", "b"):
        Recorder(tmp_path / name, sites=SOME).write([1]).close()
    (manifest,) = (tmp_path / "a").glob("manifest-*")
    manifest.write_bytes(manifest.read_bytes().replace(b'"rank": 0', b'"rank": 1'))
    with pytest.warns(gradwatch.GradwatchWarning, match="segments that it names are left out"):
        files = gradwatch.store.segment_files(tmp_path)
    assert [Path(file).parts[-3] for file in files] == ["b"]
