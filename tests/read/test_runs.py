"""Finding and listing runs."""

import shutil

import pytest

import gradwatch
from tests.store.recorded import Recorder


@pytest.fixture
def place(tmp_path):
    for name in ("lr/run-10", "lr/run-2", "base"):
        Recorder(tmp_path / name).write([1, 2]).close()
    (tmp_path / "notes").mkdir()
    return tmp_path


def test_runs_are_found_at_any_depth_in_natural_order(place):
    runs = gradwatch.open(place)
    assert isinstance(runs, gradwatch.read.Runs)
    assert runs.names == ["base", "lr/run-2", "lr/run-10"]
    assert [run.name for run in runs] == ["base", "run-2", "run-10"]
    assert runs["base"] is runs["base"]
    assert "base" in runs
    assert "lr" not in runs
    assert repr(runs) == f"Runs({str(place)!r}: 3: base, lr/run-2, lr/run-10)"


def test_runs_are_filtered_by_name_or_by_what_they_say(place):
    runs = gradwatch.open(place)
    assert [run.name for run in runs.filter("lr/*")] == ["run-2", "run-10"]
    assert [run.name for run in runs.filter(lambda run: run.name == "base")] == ["base"]


def test_a_new_run_is_found_by_refresh(place):
    runs = gradwatch.open(place)
    assert not runs.refresh()
    shutil.copytree(place / "base", place / "copy")
    assert runs.refresh()
    assert "copy" in runs


def test_a_broken_run_hides_no_other(place, monkeypatch):
    from gradwatch.read import runs as module

    true_run = module.Run

    def run(path):
        if path.name == "run-2":
            raise OSError("cannot be read")
        return true_run(path)

    monkeypatch.setattr(module, "Run", run)
    runs = gradwatch.open(place)
    assert [each.name for each in runs] == ["base", "run-10"]
    assert str(runs.broken["lr/run-2"]) == "cannot be read"


def test_errors_say_what_is_near(place):
    with pytest.raises(FileNotFoundError, match=r"no directory .*bass.* Near it: .*base"):
        gradwatch.open(place / "bass")
    with pytest.raises(FileNotFoundError, match=r"no run in .*notes"):
        gradwatch.open(place / "notes")
    (place / "file").touch()
    with pytest.raises(NotADirectoryError, match="which is a file"):
        gradwatch.open(place / "file")
    with pytest.raises(KeyError, match="Closest: lr/run-2"):
        gradwatch.open(place)["lr/run-3"]


def test_segments_and_quarantine_are_no_runs_of_their_own(place):
    shutil.copytree(place / "base", place / "base" / "quarantine")
    assert gradwatch.read.Runs(place).names == ["base", "lr/run-2", "lr/run-10"]
    assert isinstance(gradwatch.open(str(place / "base")), gradwatch.read.Run)
