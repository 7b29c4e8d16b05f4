"""A run whose files hold anything, with right checksums, is opened and shown; it hides no other."""

from __future__ import annotations

import json
import resource
import shutil
import time

import google_crc32c
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import gradwatch
from gradwatch.cli.main import main
from gradwatch.core import Kind, Site
from gradwatch.diagnosis import Finding, Severity, Verdict, findings_of
from gradwatch.diagnosis.findings_file import Extent, FindingsFile
from gradwatch.store import StoreWriter, sealing
from gradwatch.util.files import checked_json
from gradwatch.view import data as views
from tests.faults import fuzzing, programs

SEED = 5
SELDOM = 10
MEMORY = 4 << 30
"""More than any of these runs may take."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A run with files of every kind: some sealed, some in a journal, with findings."""
    place = tmp_path_factory.mktemp("runs") / "a"
    gradwatch.Monitor(place.with_name("b"), sinks=[gradwatch.Store()]).record(
        gradients={"k": np.ones(2)}
    )
    monitor = programs.monitor_of(place, programs.SmallStore(rows_a_journal=24))
    with monitor:
        programs.record(monitor, SEED, range(1, 17), pause=0.0)
    assert sealing.sealer.finish(time.monotonic() + 60)
    finding = Finding(
        "dead-units", Severity.ERROR, "All units are dead.", 3, 5, None, "net",
        (Site(Kind.GRADIENT, "net/conv/kernel"),), {"share": 1.0, "limit": np.nan}, "Wait.",
    )  # fmt: skip
    findings = FindingsFile(place, "x")
    findings.found(finding)
    verdict = Verdict("learned", 16, {"initial loss": 2.0, "current loss": 0.2}, (0.1, 0.3))
    findings.ended([finding], Extent(1, 16, False), verdict)
    findings.close()
    writer = StoreWriter(place, first_step=17)
    for step in range(17, 25):
        writer.write(programs.reading(SEED, step))
    yield place
    writer.close()


@pytest.fixture(scope="module", autouse=True)
def little_memory():
    """A file that asks for gigabytes gets none."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:  # noqa: PTH123
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def look(place):
    """Open a run and show all of it; returns its damage. Raises whatever that raises."""
    with gradwatch.open(place) as run:
        found = findings_of(run)
        views.to_json(views.entry(run, "0", "a", found))
        view = views.RunView(run)
        views.to_json(views.overview(view, found))
        for kind in {site.kind for site in run.sites()}:
            views.to_json(views.tree(view, kind))
            if not kind.is_number:
                run.heatmap(kind)
        run.sql("select * from summaries").fetchall()
        run.sql("select * from histograms").fetchall()
        assert all(str(damage) for damage in run.damage)
        return run.damage


def look_by_commands(place):
    """The same by the commands, which look at all runs of the folder."""
    listed = json.loads(command("ls", str(place.parent), "--json"))
    assert [entry["name"] for entry in listed] == ["a", "b"]
    assert not any(entry["status"] == "broken" for entry in listed)
    command("show", str(place))


def command(*arguments):
    """The output of a command, which has not failed: it may have found damage."""
    done = CliRunner().invoke(main, arguments)
    assert isinstance(done.exception, SystemExit | None), done.output
    assert done.exit_code in (0, 1)
    return done.stdout


def replaced(path, data):
    """Look at the run with another content of a file; it is as before afterwards."""
    before = path.read_bytes()
    try:
        path.write_bytes(data)
        if google_crc32c.value(data) % SELDOM == 0:  # They take most of the time.
            look_by_commands(path.parent)
        return look(path.parent)
    finally:
        path.write_bytes(before)


def fuzz(strategy, examples, check):
    took = []

    def timed(drawn):
        begun = time.perf_counter()
        check(drawn)
        took.append(time.perf_counter() - begun)

    settings(max_examples=examples, deadline=None)(given(strategy)(timed))()
    print(f"{len(took)} cases, the longest took {max(took):.2f} s")


def test_a_run_as_it_was_written_is_whole(place):
    assert look(place) == []


@pytest.mark.parametrize("with_checksum", [True, False])
def test_any_description(place, count, with_checksum):
    path = place / "run.json"
    content = checked_json.read(path)

    def check(changed):
        if with_checksum:
            replaced(path, checked_json.dumps(changed if isinstance(changed, dict) else {}))
        else:
            replaced(path, json.dumps(changed).encode())

    document = content if with_checksum else {**content, "format": 1}
    fuzz(fuzzing.changed(document), count(10, 350), check)


def test_any_manifest(place, count):
    (path,) = [p for p in place.glob("manifest-*.json") if checked_json.read(p)["segments"]]
    content = checked_json.read(path)

    def check(changed):
        replaced(path, checked_json.dumps(changed if isinstance(changed, dict) else {}))

    fuzz(fuzzing.changed(content), count(8, 600), check)


def test_any_journal(place, count):
    (path,) = place.glob("journal-*.gwj")
    whole = path.read_bytes()
    fuzz(fuzzing.changed_journal(whole), count(8, 600), lambda data: replaced(path, data))


@pytest.mark.parametrize("pattern", ["run.json", "manifest-*", "journal-*", "findings.jsonl"])
def test_any_bytes(place, count, pattern):
    (path,) = place.glob(pattern)
    data = fuzzing.changed_bytes(path.read_bytes())
    fuzz(data, count(5, 100), lambda data: replaced(path, data))


def test_any_finding(place, count):
    path = place / "findings.jsonl"
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]

    def check(changed):
        texts = [json.loads(checked_json.dumps(each)) for each in changed if isinstance(each, dict)]
        replaced(path, b"".join(json.dumps(each).encode() + b"\n" for each in texts))

    without = [{k: v for k, v in line.items() if k != checked_json.CHECKSUM} for line in lines]
    fuzz(fuzzing.changed(without), count(8, 200), check)


@pytest.mark.parametrize("data", [b"", b"{}", b"null", b"[]", b"\x00" * 100])
@pytest.mark.parametrize("pattern", ["run.json", "manifest-*", "journal-*", "findings.jsonl"])
def test_a_file_of_nothing(place, pattern, data):
    (path,) = place.glob(pattern)
    damage = replaced(path, data)
    assert damage or pattern in ("journal-*", "findings.jsonl")


def test_a_repaired_run_is_whole_whatever_was_in_its_files(place, count, tmp_path):
    (journal,) = place.glob("journal-*.gwj")
    (manifest,) = [p for p in place.glob("manifest-*.json") if checked_json.read(p)["segments"]]
    content, whole = checked_json.read(manifest), journal.read_bytes()
    both = st.tuples(fuzzing.changed(content), fuzzing.changed_journal(whole))

    def check(changed):
        copied = tmp_path / "copy"
        shutil.rmtree(copied, ignore_errors=True)
        shutil.copytree(place, copied)
        document, data = changed
        (copied / manifest.name).write_bytes(
            checked_json.dumps(document if isinstance(document, dict) else {})
        )
        (copied / journal.name).write_bytes(data)
        try:
            gradwatch.maintain.repair(copied)
        except gradwatch.maintain.LiveRunError:
            return
        with gradwatch.open(copied) as run:
            assert run.damage == []

    fuzz(both, count(5, 100), check)
