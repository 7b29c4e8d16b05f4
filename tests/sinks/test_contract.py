"""What every sink does, whatever it writes: a sink that is exported is tested here."""

from __future__ import annotations

import csv
import inspect
import io
import re
import time
import warnings
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gradwatch
from gradwatch.core import KINDS, Grouping, Kind, Reading, Site, Summary
from gradwatch.sinks import Pipeline, RunInfo, Sink
from gradwatch.util import Reporter

EXPORTED = [getattr(gradwatch, name) for name in gradwatch.__all__]
SINKS = [s for s in EXPORTED if inspect.isclass(s) and issubclass(s, Sink) and s is not Sink]
forwarded: list[int] = []
"""The steps that `Forward` has sent to its tracker."""


def new(sink: type[Sink]) -> Sink:
    if sink is gradwatch.Forward:
        return gradwatch.Forward(lambda numbers, step: forwarded.append(step))
    return sink()


class Shown:
    """Which steps somebody sees who looks at what a sink has written."""

    def __init__(self, capsys, tensorboard):
        self._capsys, self._tensorboard = capsys, tensorboard
        self.printed = ""

    def steps(self, sink: type[Sink], directory: Path) -> set[int]:
        self.printed += self._capsys.readouterr().out
        return {
            gradwatch.CSV: self._rows,
            gradwatch.Console: self._lines,
            gradwatch.Forward: lambda directory: set(forwarded),
            gradwatch.PNG: self._files,
            gradwatch.Store: self._run,
            gradwatch.TensorBoard: self._events,
            gradwatch.Totals: self._lines,
        }[sink](directory)

    def _rows(self, directory):
        with (directory / "summaries.csv").open(newline="", encoding="utf-8") as file:
            return {int(row["step"]) for row in csv.DictReader(file)}

    def _lines(self, directory):
        return {int(step) for step in re.findall(r"\bstep (\d+)", self.printed)}

    def _files(self, directory):
        return {int(file.stem) for file in directory.rglob("*.png")}

    def _run(self, directory):
        with gradwatch.open(directory) as run:
            return set(run.steps().tolist())

    def _events(self, directory):
        return {event["step"] for event in self._tensorboard(directory)["events"] if event["step"]}


@pytest.fixture
def shown(capsys, tensorboard):
    return Shown(capsys, tensorboard)


@pytest.fixture(params=SINKS, ids=lambda sink: sink.__name__)
def sink(request):
    forwarded.clear()
    return new(request.param)


@pytest.fixture
def run(tmp_path):
    place = tmp_path / "runs" / "a"
    place.mkdir(parents=True)
    return RunInfo(place)


GRADIENT, WEIGHT = Site(Kind.GRADIENT, "net/a/kernel"), Site(Kind.WEIGHT, "net/a/kernel")


def reading(step, arrays=None, **more):
    """A reading of arrays, with a histogram and a picture of the first."""
    arrays = {GRADIENT: [3.0, -4.0], WEIGHT: [1.0, 2.0]} if arrays is None else arrays
    with np.errstate(all="ignore"):
        rows = np.array([Summary.of(np.array(x)).pack() for x in arrays.values()]).reshape(-1, 10)
    cells = {0: gradwatch.Histogram.of(next(iter(arrays.values()))).cells} if arrays else {}
    pictures = {site: np.full((2, 2, 3), step, np.uint8) for site in list(arrays)[:1]}
    summary = Summary.unpack(rows)
    return Reading(step, 1, 1e9 + step, tuple(arrays), summary, cells, pictures=pictures, **more)


def write(sink, run, readings, many=False):
    sink.before_run(run)
    sink.open(run)
    if many:
        sink.write_many(list(readings))
    else:
        for each in readings:
            sink.write(each)
    sink.epoch_end(1, {"loss": 0.5})
    sink.close()
    sink.after_run(run)


@pytest.mark.parametrize("many", [False, True])
def test_it_shows_what_it_is_given(sink, run, shown, many):
    write(sink, run, map(reading, (1, 2, 3)), many)
    assert max(shown.steps(type(sink), run.directory)) == 3


def test_it_can_be_opened_again_and_goes_on(sink, run, shown):
    write(sink, run, map(reading, (1, 2)))
    before = shown.steps(type(sink), run.directory)
    write(sink, replace(run, first_step=3), [reading(3)])
    assert shown.steps(type(sink), run.directory) == before | {3}


def test_a_new_one_goes_on_in_the_same_directory(sink, run, shown):
    write(sink, run, map(reading, (1, 2)))
    before = shown.steps(type(sink), run.directory)
    write(new(type(sink)), replace(run, first_step=3), [reading(3)])
    assert shown.steps(type(sink), run.directory) == before | {3}


def test_it_can_be_closed_twice_and_unopened(sink, run):
    sink.close()
    sink.open(run)
    sink.close()
    sink.close()
    assert list(run.directory.iterdir()) == []


def test_numbers_that_are_not_finite_or_not_there_are_no_problem(sink, run, shown):
    arrays = {
        Site(Kind.GRADIENT, f"net/{name}/kernel"): values
        for name, values in {
            "bad": [np.nan, np.inf, -np.inf, 1.0],
            "nan": [np.nan],
            "empty": [],
            "zero": [0.0, -0.0],
            "huge": [1e300, -1e300],
            "tiny": [5e-324],
        }.items()
    }
    arrays[Site(Kind.LOSS, "loss")] = [np.nan]
    arrays[Site(Kind.WEIGHT, "net/bad/kernel")] = [np.nan, 1.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write(sink, run, [reading(step, arrays) for step in (1, 2)])
    assert max(shown.steps(type(sink), run.directory)) == 2


NAMES = [
    "a\nb", "a\r\tb", "a,b\"'`;", "ünï/cödé/日本", "\x1b[31mred", "\udc80", "=1+1", "../../up",
    "/etc/x", "a//b/", "CON/nul", "[0]", "%s{0}", "x" * 5000, "a b/c d", ".", "back\\slash", "",
]  # fmt: skip


def test_names_may_be_anything_and_nothing_is_written_elsewhere(sink, run, shown):
    around = run.directory.parent.parent
    for step, name in enumerate(NAMES, start=1):
        arrays = {Site(kind, name): [float(step)] for kind in (Kind.WEIGHT, Kind.GRADIENT)}
        write(sink, replace(run, first_step=step), [reading(step, arrays)])
    assert max(shown.steps(type(sink), run.directory)) == len(NAMES)
    assert [path.name for path in around.iterdir()] == ["runs"]
    assert [path.name for path in (around / "runs").iterdir()] == ["a"]


def test_every_kind_is_taken(sink, run, shown):
    arrays = {Site(kind, "net/a/kernel"): [1.0] for kind in KINDS.values()}
    write(sink, run, [reading(1, arrays)])
    assert shown.steps(type(sink), run.directory) == {1}


def test_a_reading_of_nothing_is_no_problem(sink, run, shown):
    write(sink, run, [reading(1, {}), reading(2)])
    assert max(shown.steps(type(sink), run.directory)) == 2


def test_groups_micro_batches_and_named_totals_are_taken(sink, run, shown):
    grouping = Grouping({"kernels": "kernel", "none": "nowhere"})
    readings = [
        reading(1, group="generator"),
        reading(2, micro_batch=0),
        reading(2, group="generator", micro_batch=1),
        grouping.attach(reading(3)),
    ]
    write(sink, run, readings)
    assert max(shown.steps(type(sink), run.directory)) == 3


def test_a_disk_that_fails_raises_an_oserror_and_the_next_write_succeeds(sink, tmp_path, shown):
    place = tmp_path / "run"
    place.write_text("no directory")
    sink.before_run(RunInfo(place))
    sink.open(RunInfo(place))
    with suppress(OSError):
        sink.write(reading(1))
        sink.epoch_end(1, {})
    place.unlink()
    place.mkdir()
    sink.write(reading(2))
    sink.epoch_end(1, {})
    sink.close()
    assert max(shown.steps(type(sink), place)) == 2


def test_a_full_disk_raises_an_oserror_and_later_writes_succeed(sink, small_disk, shown):
    place = small_disk / "run"
    place.mkdir()
    sink.before_run(RunInfo(place))
    sink.open(RunInfo(place))
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file:
        while True:
            try:
                if not file.write(b"x" * 4096):
                    break
            except OSError:
                break
    with suppress(OSError):
        sink.write(reading(1))
    filler.unlink()
    sink.write(reading(2))
    sink.epoch_end(1, {})
    sink.close()
    assert max(shown.steps(type(sink), place)) == 2


class Broken(io.StringIO):
    def write(self, text):
        raise OSError(5, "broken")


def test_nothing_of_it_reaches_training(sink, tmp_path, monkeypatch):
    """Neither a broken disk nor a broken terminal, nor that it is given nonsense."""
    monkeypatch.setattr("sys.stdout", Broken())
    said: list[str] = []
    place = tmp_path / "run"
    place.write_text("no directory")
    pipeline = Pipeline([sink], Reporter(said.append))
    pipeline.open(RunInfo(place))
    for step in (1, 2):
        pipeline.submit(lambda step=step: reading(step))
    pipeline.submit(lambda: None)
    while not pipeline.is_idle:
        time.sleep(0.002)
    pipeline.epoch_end(1, {})
    pipeline.close(timeout=60.0)
    assert all(type(sink).__name__ in each for each in said)
