"""Reading remote runs: from a verified local copy."""

import json
import shutil

import fsspec
import numpy as np
import pytest

import gradwatch
from gradwatch.store.remote import claims
from gradwatch.util.files import checked_json
from tests.statistics_truth import TRUTH
from tests.store.recorded import SITES, Recorder, array
from tests.store.remote.conftest import remote_files

SITE = SITES[1]


def files():
    return fsspec.filesystem("memory")


@pytest.fixture
def url(memory, tmp_path):
    """A remote run of several segments."""
    place = tmp_path / "local"
    Recorder(place, rows_a_journal=100).write(range(1, 31), histograms=True).close()
    gradwatch.maintain.upload(place, f"{memory}/runs/a")
    return f"{memory}/runs/a"


def check(run, steps):
    found, values = run.series(SITE.kind, SITE.path, "l2")
    assert found.tolist() == list(steps)
    true = [TRUTH["l2"](array(SITE, step)) for step in steps]
    np.testing.assert_allclose(values, true, rtol=1e-6)


def segments(url, table="summaries"):
    return [path for path in remote_files(url) if f".{table}." in path]


def test_every_table_reads_as_it_does_locally(url, tmp_path):
    run, local = gradwatch.open(url), gradwatch.open(tmp_path / "local")
    check(run, range(1, 31))
    assert isinstance(run, gradwatch.read.Run)
    for table in ("all_summaries", "histograms", "sites", "losses"):
        query = f"select * from {table} order by all"
        assert repr(run.sql(query).fetchall()) == repr(local.sql(query).fetchall()), table
    assert run.name == "a"
    assert url in repr(run)


def test_what_is_in_the_cache_is_not_downloaded_again(url):
    first = gradwatch.open(url)
    assert first._mirror.downloads > len(segments(url))
    second = gradwatch.open(url)
    assert second._mirror.downloads == 1  # the manifest
    second.refresh()
    assert second._mirror.downloads == 1
    check(second, range(1, 31))


def test_refresh_sees_what_was_uploaded_since(url, tmp_path):
    run = gradwatch.open(url)
    assert not run.refresh()
    Recorder(tmp_path / "local", first_step=31).write(range(31, 41)).close()
    gradwatch.maintain.upload(tmp_path / "local", url)
    assert run.refresh()
    check(run, range(1, 41))


def test_a_damaged_segment_is_reported_not_kept_and_the_rest_is_served(url):
    name = segments(url)[1]
    whole = files().cat(f"{url}/{name}")
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 4
    files().pipe(f"{url}/{name}", bytes(flipped))
    run = gradwatch.open(url)
    assert not (run.path / name).exists()
    assert [damage.file.name for damage in run.damage] == [name.rpartition("/")[2]]
    found, values = run.series(SITE.kind, SITE.path, "l2")
    assert 0 < len(found) < 30
    for step, value in zip(found.tolist(), values, strict=True):
        np.testing.assert_allclose(value, TRUTH["l2"](array(SITE, step)), rtol=1e-6)
    files().pipe(f"{url}/{name}", whole)
    assert run.refresh()
    assert not run.damage
    check(run, range(1, 31))


def test_a_file_that_was_damaged_in_the_cache_is_downloaded_anew(url):
    run = gradwatch.open(url)
    path = run.path / segments(url)[0]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    again = gradwatch.open(url)
    assert not again.damage
    check(again, range(1, 31))


def test_a_damaged_manifest_is_reported_and_its_segments_are_served(url):
    (name,) = (path for path in remote_files(url) if path.startswith("manifest-"))
    data = bytearray(files().cat(f"{url}/{name}"))
    data[len(data) // 2] ^= 1
    files().pipe(f"{url}/{name}", bytes(data))
    run = gradwatch.open(url)
    assert name in [damage.file.name for damage in run.damage]
    check(run, range(1, 31))


def test_a_manifest_that_names_a_path_writes_nothing_elsewhere(url, tmp_path):
    (name,) = (path for path in remote_files(url) if path.startswith("manifest-"))
    content = json.loads(files().cat(f"{url}/{name}"))
    content.pop("crc32c")
    content["segments"][0]["tables"]["summaries"]["file"] = "../../../../evil"
    files().pipe(f"{url}/{name}", checked_json.dumps(content))
    files().pipe(f"{url.rpartition('/runs')[0]}/evil", b"x")
    run = gradwatch.open(url)
    assert run.damage
    assert not list(tmp_path.rglob("evil"))


def test_runs_below_a_url_are_listed_and_downloaded_when_asked_for(memory, tmp_path):
    for name in ("lr/run-10", "lr/run-2", "base"):
        Recorder(tmp_path / name).write([1, 2]).close()
        gradwatch.maintain.upload(tmp_path / name, f"{memory}/runs/{name}")
    runs = gradwatch.open(f"{memory}/runs")
    assert runs.names == ["base", "lr/run-2", "lr/run-10"]
    assert not list(runs.path.rglob("*.parquet"))
    check(runs["lr/run-2"], [1, 2])
    assert len(list(runs.path.rglob("*.summaries.*.parquet"))) == 1
    assert [run.name for run in runs.filter("lr/*")] == ["run-2", "run-10"]
    assert not runs.refresh()
    shutil.copytree(tmp_path / "base", tmp_path / "new")
    gradwatch.maintain.upload(tmp_path / "new", f"{memory}/runs/new")
    assert runs.refresh()
    check(runs["new"], [1, 2])
    assert f"{memory}/runs" in repr(runs)


def test_where_there_is_no_run_that_is_said(memory):
    with pytest.raises(FileNotFoundError, match="There is no run at memory://"):
        gradwatch.open(f"{memory}/nothing")


def test_a_run_recorded_elsewhere_is_live_while_its_claim_is_renewed(url, monkeypatch):
    (name,) = (path for path in remote_files(url) if path.startswith("manifest-"))
    content = json.loads(files().cat(f"{url}/{name}"))
    content.pop("crc32c")
    content |= {"ended": None, "host": "elsewhere"}
    files().pipe(f"{url}/{name}", checked_json.dumps(content))
    assert gradwatch.open(url).status == "crashed"
    about = {"owner": "x", "period": 60.0, "time": 1000.0, "host": "elsewhere", "pid": 1}
    files().pipe(f"{url}/claim-x.json", json.dumps(about).encode())
    monkeypatch.setattr(claims.time, "time", lambda: 1100.0)
    assert gradwatch.open(url).status == "live"
    monkeypatch.setattr(claims.time, "time", lambda: 1200.0)
    assert gradwatch.open(url).status == "crashed"


def test_of_a_run_that_another_has_replaced_nothing_is_left(url, tmp_path):
    run = gradwatch.open(url)
    old = {path.name for path in run.path.rglob("*.*")}
    files().rm(url, recursive=True)
    Recorder(tmp_path / "new", attempt=7).write([1, 2]).close()
    gradwatch.maintain.upload(tmp_path / "new", url)
    run.refresh()
    assert run.steps().tolist() == [1, 2]
    assert not run.damage
    assert not old & {path.name for path in run.path.rglob("*.*")}
