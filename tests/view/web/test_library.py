"""The list of runs: there at once, and filled in."""

import json
import shutil

import pytest

import gradwatch
from gradwatch.view.web.background_diagnosis import BackgroundDiagnosis
from gradwatch.view.web.change_poller import ChangePoller
from gradwatch.view.web.entry_cache import EntryCache
from gradwatch.view.web.hub import Hub
from gradwatch.view.web.library import Library, NoSuchRunError, id_of
from gradwatch.view.web.live_run import signature_of
from tests.view.data.made import recorder
from tests.view.web.served import wait_for


@pytest.fixture
def diagnosis():
    made = BackgroundDiagnosis(lambda id: None)
    yield made
    made.close()


def library(place, diagnosis):
    return Library(gradwatch.open(place), "runs", diagnosis)


def test_a_thousand_runs_are_listed_before_any_is_opened(tmp_path, place, diagnosis, monkeypatch):
    [manifest] = (place / "deep" / "b").glob("manifest-*.json")
    for i in range(1000):
        folder = tmp_path / "runs" / f"run{i}"
        folder.mkdir(parents=True)
        shutil.copy(manifest, folder)
    opened = []
    runs = gradwatch.open(tmp_path / "runs")
    monkeypatch.setattr(type(runs), "fresh", lambda self, name: opened.append(name))
    listed = Library(runs, "runs", diagnosis).entries()
    assert [entry["name"] for entry in listed] == [f"run{i}" for i in range(1000)]
    assert len({entry["id"] for entry in listed}) == 1000
    assert all(entry["status"] is entry["loss"] is entry["health"] is None for entry in listed)
    assert opened == []


def test_entries_fill_in_while_somebody_looks(place, diagnosis):
    runs, hub = library(place, diagnosis), Hub()
    told = []
    hub.publish = lambda **change: told.append(change)
    poller = ChangePoller(runs, hub)
    poller.start()
    poller.wake()
    wait_for(lambda: all(entry["status"] for entry in runs.entries()))
    poller.close()
    first, second = runs.entries()
    assert (first["status"], first["last_step"], first["steps"]) == ("finished", 20, 20)
    assert first["sites"] == 28
    assert first["loss"] == pytest.approx(1 / 20)
    assert second["name"] == "deep/b"
    assert any(change.get("list_too") for change in told)
    json.dumps(runs.entries(), allow_nan=False)


def test_a_run_that_is_finished_is_not_read_again(place, diagnosis, monkeypatch):
    runs = library(place, diagnosis)
    [first, *_] = runs.names
    assert runs.update(first)
    monkeypatch.setattr(runs, "_entry", lambda id: pytest.fail("it was read again"))
    assert not runs.update(first)


def test_a_run_that_cannot_be_opened_hides_no_other(tmp_path, place, diagnosis, monkeypatch):
    shutil.copytree(place / "a", tmp_path / "runs" / "good")
    shutil.copytree(place / "a", tmp_path / "runs" / "bad")
    runs = library(tmp_path / "runs", diagnosis)
    fresh = runs._found.fresh

    def failing(name):
        if name == "bad":
            raise PermissionError(13, "Permission denied", str(tmp_path / "runs" / "bad"))
        return fresh(name)

    monkeypatch.setattr(runs._found, "fresh", failing)
    for id in runs.names:
        runs.update(id)
    bad, good = runs.entries()
    assert (bad["status"], good["status"]) == ("broken", "finished")
    assert bad["error"] == "PermissionError: Permission denied"
    assert str(tmp_path) not in json.dumps(runs.entries())


def test_runs_come_and_go(tmp_path, place, diagnosis):
    shutil.copytree(place / "a", tmp_path / "runs" / "one")
    runs = library(tmp_path / "runs", diagnosis)
    assert not runs.refresh()
    shutil.copytree(place / "a", tmp_path / "runs" / "two")
    assert runs.refresh()
    assert list(runs.names.values()) == ["one", "two"]
    assert runs.view(id_of("two")).name == "two"
    assert runs.view(id_of("one")).name == "one"
    shutil.rmtree(tmp_path / "runs" / "one")
    assert runs.refresh()
    with pytest.raises(NoSuchRunError):
        runs.view(id_of("one"))


def test_ids_are_the_same_when_the_server_is_started_again(place, diagnosis):
    first, second = library(place, diagnosis), library(place, diagnosis)
    assert first.names == second.names
    assert all(len(id) == 16 for id in first.names)


def test_what_is_open_is_read_on(tmp_path, diagnosis):
    writer = recorder(tmp_path / "runs" / "a")
    writer.write([1])
    runs = library(tmp_path / "runs", diagnosis)
    [id] = runs.names
    assert runs.view(id).run.last_step == 1
    before = runs.signature(id)
    writer.write([2, 3])
    assert runs.changed() == [id]
    assert runs.view(id).run.last_step == 3
    assert runs.signature(id) != before
    assert runs.changed() == []
    assert runs.update(id)
    assert runs.entries()[0]["status"] == "live"
    writer.close()
    runs.changed()
    assert runs.update(id)
    assert runs.entries()[0]["status"] == "finished"


def test_a_change_that_a_request_saw_first_is_told_of_all_the_same(
    tmp_path, diagnosis, monkeypatch
):
    monkeypatch.setattr("gradwatch.view.web.live_run.MAX_AGE", 0.0)
    writer = recorder(tmp_path / "runs" / "a")
    writer.write([1])
    runs = library(tmp_path / "runs", diagnosis)
    [id] = runs.names
    assert runs.view(id).run.last_step == 1
    writer.write([2])
    assert runs.view(id).run.last_step == 2
    assert runs.changed() == [id]
    assert runs.changed() == []
    writer.close()


def test_what_is_written_while_a_run_is_opened_is_read_at_the_next_look(
    tmp_path, diagnosis, monkeypatch
):
    writer = recorder(tmp_path / "runs" / "a")
    writer.write([1])
    runs = library(tmp_path / "runs", diagnosis)
    [id] = runs.names
    fresh = runs._fresh

    def slowly(id):
        run = fresh(id)
        writer.write([2])
        return run

    monkeypatch.setattr(runs, "_fresh", slowly)
    assert runs.view(id).run.last_step == 1
    assert runs.changed() == [id]
    assert runs.view(id).run.last_step == 2
    writer.close()


def test_many_runs_may_be_open_one_after_the_other(tmp_path, place, diagnosis):
    for i in range(15):
        shutil.copytree(place / "deep" / "b", tmp_path / "runs" / f"run{i}")
    runs = library(tmp_path / "runs", diagnosis)
    first = runs.view(id_of("run0"))
    for id in runs.names:
        assert runs.view(id).run.last_step == 10
    assert len(runs.open_ids()) == 12
    # One that a request is still at is not closed under its feet.
    assert first.run.series("gradient", "net/head/bias")[0].size == 10


def test_a_signature_changes_with_the_files(tmp_path):
    (tmp_path / "a").write_text("x")
    one = signature_of(tmp_path)
    assert signature_of(tmp_path) == one
    (tmp_path / "a").write_text("xy")
    assert signature_of(tmp_path) != one
    assert signature_of(tmp_path / "nothing") == ()


def test_findings_are_those_of_the_whole_run_and_come_later(place, diagnosis):
    from gradwatch.diagnosis.replay import findings_of

    runs = library(place, diagnosis)
    [id, *_] = runs.names
    run = runs.view(id).run
    found, is_all = diagnosis.findings(id, run, runs.signature(id))
    assert (found, is_all) == ([], False)
    wait_for(lambda: diagnosis.findings(id, run, runs.signature(id))[1])
    true = findings_of(run)
    assert [f.title for f in diagnosis.findings(id, run, runs.signature(id))[0]] == [
        f.title for f in true
    ]
    assert true
    assert diagnosis.known(id, run)


def test_runs_at_a_url_are_served_from_their_copies(tmp_path, place, diagnosis, monkeypatch):
    monkeypatch.setenv("GRADWATCH_CACHE", str(tmp_path / "cache"))
    runs = library(f"file://{place}", diagnosis)
    for id, name in runs.names.items():
        assert runs.update(id)
        assert runs.view(id).run.last_step == gradwatch.open(place / name).last_step
    assert [entry["status"] for entry in runs.entries()] == ["finished", "finished"]


def test_entries_of_ended_runs_are_kept_for_the_next_server(tmp_path, diagnosis, monkeypatch):
    for name in ("a", "b"):
        recorder(tmp_path / "runs" / name).write(range(1, 4)).close()

    def listed():
        cache = EntryCache(tmp_path / "runs", "1", tmp_path / "cache")
        library = Library(gradwatch.open(tmp_path / "runs"), "runs", diagnosis, None, cache)
        for id in library.names:
            library.update(id)
        library.close()
        return library.entries()

    first = listed()
    opened = []
    monkeypatch.setattr(Library, "_entry", lambda self, id: opened.append(id) or first[0])
    assert listed() == first
    assert opened == []
    # One that has changed is read again, and what cannot be read is as good as nothing.
    recorder(tmp_path / "runs" / "b").write(range(4, 6)).close()
    listed()
    assert len(opened) == 1
    for file in (tmp_path / "cache").iterdir():
        file.write_text('{"a": 3}')
    listed()
    assert len(opened) == 3
