"""Event files of other tools become a run with the same numbers."""

import sys

import numpy as np
import pytest

from gradwatch import Summary
from gradwatch import read as reading
from gradwatch.integrations.tensorboard_import import import_tensorboard
from gradwatch.integrations.tensorboard_import.logged_numbers import summarize
from gradwatch.sinks.event_file import EventFile, scalar, start_event, summary_event
from tests.cli.support import invoke, strict


def log(directory, points, *, restart=None):
    """An event file of numbers: (tag, step, time, value)."""
    events = EventFile(directory)
    start = [] if restart is None else [start_event(restart, 0.0)]
    events.append(
        [*start, *(summary_event(step, time, [scalar(tag, v)]) for tag, step, time, v in points)]
    )
    events.close()
    return events.path


def series(run, path):
    with reading.open(run) as opened:
        steps, values = opened.series("scalar", path, "value")
        return dict(zip(steps.tolist(), values.tolist(), strict=True))


def test_numbers_come_back_under_their_tags_by_step(tmp_path):
    rng = np.random.default_rng(0)
    truth = {
        tag: {step: float(np.float32(rng.normal())) for step in range(0, 50, every)}
        for tag, every in (("loss", 1), ("lr", 7))
    }
    points = [(tag, step, 1e9 + step, v) for tag, own in truth.items() for step, v in own.items()]
    log(tmp_path / "logs", points)
    report = import_tensorboard(tmp_path / "logs", tmp_path / "run")
    assert (report.numbers, report.tags, report.damage) == (len(points), {"loss", "lr"}, [])
    for tag, own in truth.items():
        assert series(tmp_path / "run", tag) == own
    with reading.open(tmp_path / "run") as run:
        assert run.status == "finished"
        assert run.facts["fits"][0]["imported"]["tool"] == "tensorboard"
        (moment,) = run.sql("select distinct time from summaries where step = 14").fetchall()
        assert moment == (1e9 + 14,)


def test_values_that_are_not_finite_stay_what_they_are(tmp_path):
    values = [np.nan, np.inf, -np.inf, 0.0, 2.0]
    log(tmp_path / "logs", [("a", i, 0.0, v) for i, v in enumerate(values)])
    import_tensorboard(tmp_path / "logs", tmp_path / "run")
    np.testing.assert_equal(list(series(tmp_path / "run", "a").values()), values)


def test_the_summaries_of_numbers_are_those_of_the_reference():
    values = np.array([0.0, -0.0, 1.5, -2.5, np.nan, np.inf, -np.inf, 1e-300])
    for row, value in zip(summarize(values).pack(), values, strict=True):
        np.testing.assert_equal(row, Summary.of(np.array([value])).pack())


def test_subdirectories_are_parts_of_the_run(tmp_path):
    for number, part in enumerate(("train", "validation")):
        log(tmp_path / "logs" / part, [("loss", 1, 0.0, float(number))])
    import_tensorboard(tmp_path / "logs", tmp_path / "run")
    assert series(tmp_path / "run", "train/loss") == {1: 0.0}
    assert series(tmp_path / "run", "validation/loss") == {1: 1.0}


def test_of_a_number_that_was_logged_again_the_later_counts(tmp_path):
    log(tmp_path / "logs", [("a", 1, 0.0, 1.0), ("a", 2, 1.0, 2.0), ("a", 1, 2.0, 3.0)])
    report = import_tensorboard(tmp_path / "logs", tmp_path / "run")
    assert report.replaced == 1
    assert series(tmp_path / "run", "a") == {1: 3.0, 2: 2.0}


def test_what_a_restart_takes_back_is_an_earlier_attempt(tmp_path):
    log(tmp_path / "logs", [("a", step, step, 1.0) for step in range(1, 6)])
    log(tmp_path / "logs", [("a", step, 10 + step, 2.0) for step in (3, 4)], restart=3)
    import_tensorboard(tmp_path / "logs", tmp_path / "run")
    assert series(tmp_path / "run", "a") == {1: 1.0, 2: 1.0, 3: 2.0, 4: 2.0}
    with reading.open(tmp_path / "run") as run:
        rows = run.sql("select count(*) from all_summaries where superseded").fetchall()
    assert rows == [(3,)]


def test_damage_is_told_and_the_rest_is_taken_over(tmp_path):
    path = log(tmp_path / "logs", [("a", step, 0.0, float(step)) for step in range(1, 21)])
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data[:-3])
    result = invoke("import-tensorboard", tmp_path / "logs", tmp_path / "run", "--json", code=1)
    facts = strict(result.stdout)
    assert facts["numbers"] == 18
    assert len(facts["damage"]) == 2
    found = series(tmp_path / "run", "a")
    assert 20 not in found
    assert all(step == value for step, value in found.items())
    invoke("verify", tmp_path / "run")


def test_a_directory_that_has_something_in_it_is_not_written_to(tmp_path):
    log(tmp_path / "logs", [("a", 1, 0.0, 1.0)])
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine").write_text("")
    message = invoke("import-tensorboard", tmp_path / "logs", tmp_path / "run", code=2).stderr
    assert "is not empty" in message
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["mine"]


def test_a_directory_without_event_files_is_a_mistake_and_makes_no_run(tmp_path):
    (tmp_path / "logs").mkdir()
    assert (
        "no event files"
        in invoke("import-tensorboard", tmp_path / "logs", tmp_path / "run", code=2).stderr
    )
    assert not (tmp_path / "run").exists()


def test_without_tensorboard_the_error_names_the_extra(tmp_path, monkeypatch):
    log(tmp_path / "logs", [("a", 1, 0.0, 1.0)])
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    message = invoke("import-tensorboard", tmp_path / "logs", tmp_path / "run", code=2).stderr
    assert "pip install 'gradwatch[tensorboard]'" in message
    assert not (tmp_path / "run").exists()


def test_an_interrupt_leaves_a_whole_run_of_what_was_done(tmp_path):
    for part in ("a", "b"):
        log(tmp_path / "logs" / part, [("x", step, 0.0, 1.0) for step in range(1, 6)])
    calls = []

    def interrupt(size):
        calls.append(size)
        if len(calls) == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_tensorboard(tmp_path / "logs", tmp_path / "run", interrupt)
    assert series(tmp_path / "run", "a/x") == dict.fromkeys(range(1, 6), 1.0)
    invoke("verify", tmp_path / "run")


def test_imported_numbers_are_shown_and_exported(tmp_path):
    log(tmp_path / "logs", [("accuracy", step, 0.0, step / 8) for step in range(1, 9)])
    invoke("import-tensorboard", tmp_path / "logs", tmp_path / "run")
    (entry,) = strict(invoke("show", tmp_path / "run", "--json").stdout)["numbers"]
    assert (entry["kind"], entry["path"]) == ("scalar", "accuracy")
    assert (entry["first"], entry["last"]) == (0.125, 1.0)
    lines = invoke("export", tmp_path / "run", "--table", "numbers").stdout.splitlines()
    assert [float(line.split(",")[5]) for line in lines[1:]] == [step / 8 for step in range(1, 9)]


def test_what_cannot_be_is_skipped_and_reported_and_the_rest_is_imported(tmp_path):
    points = [("a", 1, 1e9, 0.5), ("a", 2, np.inf, 1.0), ("a", 3, np.nan, 1.5), ("a", 4, 2e9, 2.0)]
    path = log(tmp_path / "logs", points)
    with path.open("ab") as file:
        file.truncate(path.stat().st_size + (200 << 20))
    report = import_tensorboard(tmp_path / "logs", tmp_path / "run")
    assert series(tmp_path / "run", "a") == {1: 0.5, 4: 2.0}
    assert ["time is inf" in d.what for d in report.damage] == [True, False, False]
    assert "time is nan" in report.damage[1].what
    assert "damaged, skipped" in report.damage[2].what
    with reading.open(tmp_path / "run") as run:
        assert run.damage == []
        assert run.duration == 1e9


def test_a_file_full_of_damage_is_reported_in_few_lines(tmp_path):
    path = log(tmp_path / "logs", [("a", i, np.nan, 0.5) for i in range(1000)])
    report = import_tensorboard(path, tmp_path / "run")
    assert len(report.damage) == 21
    assert report.damage[-1].what == "980 more places like these"
