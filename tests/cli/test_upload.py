"""`gradwatch upload`, and commands that are given a URL."""

import pytest

import gradwatch
from gradwatch.maintain import upload_run as completing
from tests.cli.support import invoke, make_run, strict, write


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADWATCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def url(tmp_path):
    return f"file://{tmp_path}/bucket/runs/a"


def test_a_run_is_uploaded_and_read_at_its_url_as_it_is_here(tmp_path, url):
    make_run(tmp_path / "a")
    done = strict(invoke("upload", tmp_path / "a", "--to", url, "--json").stdout)
    assert done["url"] == url
    assert done["damaged"] == []
    assert done["files"] == len(list((tmp_path / "bucket").rglob("*.*")))
    query = "select * from summaries order by all"
    here, there = (
        strict(invoke("sql", place, query, "--json").stdout) for place in (tmp_path / "a", url)
    )
    assert here == there
    (listed,) = strict(invoke("ls", url.rpartition("/")[0], "--json").stdout)
    assert (listed["name"], listed["status"], listed["last_step"]) == ("a", "finished", 40)
    assert "finished" in invoke("show", url).stdout


def test_what_is_there_is_not_uploaded_again_and_the_url_is_remembered(tmp_path, url):
    make_run(tmp_path / "a")
    invoke("upload", tmp_path / "a", "--to", url)
    assert invoke("upload", tmp_path / "a").stdout.startswith(f"{url}: 1 file, ")


def test_damaged_files_are_named_and_left_out(tmp_path, url):
    make_run(tmp_path / "a")
    invoke("upload", tmp_path / "a", "--to", url)
    (segment,) = (tmp_path / "a" / "segments").glob("*.summaries.*")
    segment.write_bytes(segment.read_bytes()[:-4])
    result = invoke("upload", tmp_path / "a", "--to", f"{url}-again", code=1)
    assert f"damaged and left out: {segment.name}" in result.stdout


def test_mistakes_are_one_line(tmp_path, url, monkeypatch):
    monkeypatch.setattr(completing, "PATIENCE", 0.0)
    make_run(tmp_path / "a")
    assert "was not recorded for a URL" in invoke("upload", tmp_path / "a", code=2).stderr
    assert "no directory" in invoke("upload", tmp_path / "none", code=2).stderr
    assert "no run at" in invoke("show", url, code=2).stderr
    for command in ("verify", "repair"):
        assert "Received: a URL" in invoke(command, url, code=2).stderr


def test_a_run_that_is_being_recorded_is_left_to_its_process(tmp_path, url, truth, monkeypatch):
    monkeypatch.setattr(completing, "PATIENCE", 0.0)
    writer = write(tmp_path / "a", truth)
    assert "is being written" in invoke("upload", tmp_path / "a", "--to", url, code=2).stderr
    writer.close()


def test_a_password_is_asked_for_again(tmp_path):
    make_run(tmp_path / "a")
    remote = gradwatch.store.Remote("ftp://me:hunter2@host/runs/a")
    completing.upload_note.write(tmp_path / "a", remote, remote.shown)
    result = invoke("upload", tmp_path / "a", code=2)
    assert "Give the whole URL" in result.stderr
    assert "hunter2" not in result.output
