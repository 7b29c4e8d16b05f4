"""Remote runs while they are recorded: in memory, and on a real S3-compatible server."""

import os
import re
import signal
import subprocess
import sys
import threading
import warnings

import fsspec
import numpy as np
import pytest

import gradwatch
from gradwatch.store.remote import uploader as module
from gradwatch.store.remote.folder import Folder, RemoteError
from gradwatch.store.remote.transfer import Transfer
from gradwatch.util.files import checked_json
from tests.maintain.damaged import ENVIRONMENT
from tests.store.remote.conftest import drain, remote_files, until
from tests.variants import rarely

PATIENCE = 300
SEALED = re.compile(
    r"run\.json|findings\.jsonl|manifest-[\w-]+\.json|segments/[\w-]+\.[a-z]+\.[0-9a-f]{8}\.parquet"
)

TRAINING = """
import sys, time
import numpy as np
import gradwatch
from tests.distributed.patience import be_patient

be_patient()
url, steps, every, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
monitor = gradwatch.Monitor(
    gradwatch.store.Remote(url, every=every, wait=300), every=1, sinks=[gradwatch.Store()]
)
for step in range(1, steps + 1):
    monitor.record(gradients={"dense/kernel": np.array([3.0, 4.0]) * step})
    time.sleep(pause)
    if step == steps // 2:
        print("half", flush=True)
if len(sys.argv) > 5:  # Another is waited for, so that both are there at once.
    while not monitor._session.uploader._claim._held:
        time.sleep(0.01)
    print("claimed", flush=True)
    sys.stdin.readline()
print("end", flush=True)
"""


def gradient(step):
    return np.random.default_rng(step).normal(size=9) * step


def record(monitor, steps):
    for step in steps:
        monitor.record(gradients={"dense/kernel": gradient(step)})


def truth(steps):
    return [np.linalg.norm(gradient(step).astype(np.float64)) for step in steps]


def l2(run):
    return run.series("gradient", "dense/kernel", "l2")


def has_come_to(run, step):
    run.refresh()
    return run.last_step == step


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The run is kept in", gradwatch.GradwatchWarning)
        yield


def test_what_is_recorded_is_there_while_training_goes_on_and_equals_the_truth(home):
    url = f"{home}/runs/a"
    remote = gradwatch.store.Remote(url, every=0.2)
    sinks = [gradwatch.Store(), gradwatch.TensorBoard(), gradwatch.CSV()]
    monitor = gradwatch.Monitor(remote, every=1, sinks=sinks)
    record(monitor, range(1, 6))
    # Nothing is written meanwhile: it is sealed by its age.
    until(lambda: any("segments/" in path for path in remote_files(url)))
    until(lambda: any("manifest-" in path for path in remote_files(url)))
    run = gradwatch.open(url)
    assert run.status == "live"
    until(lambda: has_come_to(run, 5))  # Some may have been sealed before others were written.
    steps, values = l2(run)
    assert steps.tolist() == [1, 2, 3, 4, 5]
    np.testing.assert_allclose(values, truth(range(1, 6)), rtol=1e-12)

    record(monitor, range(6, 21))
    monitor.close()
    drain()
    assert run.refresh()
    assert not run.refresh()
    assert run.status == "finished"
    steps, values = l2(run)
    assert steps.tolist() == list(range(1, 21))
    np.testing.assert_allclose(values, truth(range(1, 21)), rtol=1e-12)
    local = gradwatch.open(monitor.directory)
    np.testing.assert_array_equal(l2(local)[1], values)
    assert dict(run.facts) == dict(local.facts)
    assert not run.damage

    # Nothing but what is sealed: no journal, no event file, no table, no claim.
    assert all(SEALED.fullmatch(path) for path in remote_files(url)), remote_files(url)
    kept = [path.name for path in monitor.directory.iterdir()]
    assert any(name.startswith("events.out") for name in kept)
    assert "summaries.csv" in kept


@pytest.mark.parametrize("what", ["segments/", *rarely("manifest-", "run.json", "")])
def test_what_vanishes_at_the_url_is_sent_again_while_the_run_lasts(home, what):
    url = f"{home}/runs/a"
    remote = gradwatch.store.Remote(url, every=0.2)
    monitor = gradwatch.Monitor(remote, every=1, sinks=[gradwatch.Store()])
    record(monitor, range(1, 6))
    until(lambda: {"segments/", "manifest-"} <= {p[:9] for p in remote_files(url)})
    folder = Folder(remote)
    gone = [path for path in remote_files(url) if what in path and SEALED.fullmatch(path)]
    assert gone
    for path in gone:
        folder.delete(path)
    until(lambda: set(gone) <= set(remote_files(url)))
    record(monitor, range(6, 8))
    monitor.close()
    drain()
    run = gradwatch.open(url)
    assert not run.damage
    steps, values = l2(run)
    assert steps.tolist() == list(range(1, 8))
    np.testing.assert_allclose(values, truth(range(1, 8)), rtol=1e-12)


def test_a_training_that_does_not_continue_the_run_is_uploaded_next_to_it(memory):
    url = f"{memory}/runs/a"
    for name in ("a", "a-2"):
        monitor = gradwatch.Monitor(url, every=1, sinks=[gradwatch.Store()])
        record(monitor, range(1, 4))
        monitor.close()
        drain()
        run = gradwatch.open(f"{memory}/runs/{name}")
        assert l2(run)[0].tolist() == [1, 2, 3]
        assert len(_attempts(run)) == 1
    assert {path.partition("/")[0] for path in remote_files(f"{memory}/runs")} == {"a", "a-2"}


def test_findings_go_there_too_and_others_files_stay(memory):
    url = f"{memory}/runs/a"
    monitor = gradwatch.Monitor(url, every=1, sinks=[gradwatch.Store()])
    record(monitor, [1])
    (monitor.directory / "findings.jsonl").write_bytes(b'{"rule": "dead"}\n')
    (monitor.directory / "notes.txt").write_text("mine")
    monitor.close()
    drain()
    sent = fsspec.filesystem("memory").cat(f"{url}/findings.jsonl")
    assert sent.startswith(b'{"rule": "dead"}\n')
    assert not any("notes" in path for path in remote_files(url))


def test_a_second_fit_goes_on_at_the_same_url(memory):
    url = f"{memory}/runs/a"
    monitor = gradwatch.Monitor(url, every=1, sinks=[gradwatch.Store()])
    record(monitor, [1, 2])
    monitor.close()
    drain()
    record(monitor, [3, 4])
    monitor.close()
    drain()
    steps, values = l2(gradwatch.open(url))
    assert steps.tolist() == [1, 2, 3, 4]
    np.testing.assert_allclose(values, truth([1, 2, 3, 4]))


class Outage:
    """Uploading fails, for as long as it is on."""

    def __init__(self, monkeypatch, error):
        self.is_on, self.error, self.attempts = True, error, 0
        write = Folder.write

        def failing(folder, name, data):
            if self.is_on:
                self.attempts += 1
                raise self.error
            return write(folder, name, data)

        monkeypatch.setattr(Folder, "write", failing)
        monkeypatch.setattr(module, "RETRY", 0.01)


@pytest.mark.parametrize("error", [RemoteError("denied"), RuntimeError("a mistake of ours")])
def test_failing_uploads_are_said_once_counted_and_made_up_for(memory, monkeypatch, error):
    outage = Outage(monkeypatch, error)
    url = f"{memory}/runs/a"
    said = []
    monkeypatch.setattr(module.Uploader, "__init__", _telling(said, module.Uploader.__init__))
    monitor = gradwatch.Monitor(
        gradwatch.store.Remote(url, every=0.05), every=1, sinks=gradwatch.Store()
    )
    record(monitor, range(1, 6))
    until(lambda: outage.attempts >= 4)
    uploader = monitor._session.uploader
    assert uploader.failures >= 3
    assert remote_files(url) == []
    outage.is_on = False
    record(monitor, range(6, 11))
    monitor.close()
    drain()
    assert len(said) == 1
    assert str(error) in said[0]
    assert str(monitor.directory) in said[0]
    steps, values = l2(gradwatch.open(url))
    assert steps.tolist() == list(range(1, 11))
    np.testing.assert_allclose(values, truth(range(1, 11)))


def _telling(said, init):
    def telling(self, remote, directory, share=None):
        init(self, remote, directory, said.append, share)

    return telling


def test_a_bucket_that_is_made_later_gets_all_of_the_run(s3, monkeypatch):
    monkeypatch.setattr(module, "RETRY", 0.05)
    said = []
    monkeypatch.setattr(module.Uploader, "__init__", _telling(said, module.Uploader.__init__))
    url = f"{s3}later/runs/a"
    monitor = gradwatch.Monitor(
        gradwatch.store.Remote(url, every=0.2), every=1, sinks=gradwatch.Store()
    )
    record(monitor, range(1, 6))
    until(lambda: monitor._session.uploader.failures >= 2)
    fsspec.filesystem("s3", skip_instance_cache=True).mkdir(f"{s3}later".removeprefix("s3://"))
    monitor.close()
    drain()
    assert len(said) == 1
    assert "very-secret" not in said[0]
    np.testing.assert_allclose(l2(gradwatch.open(url))[1], truth(range(1, 6)))


def test_a_damaged_segment_is_not_uploaded_and_missed_by_the_reader(memory, monkeypatch):
    outage = Outage(monkeypatch, RemoteError("denied"))
    said = []
    monkeypatch.setattr(module.Uploader, "__init__", _telling(said, module.Uploader.__init__))
    url = f"{memory}/runs/a"
    monitor = gradwatch.Monitor(url, every=1, sinks=[gradwatch.Store()])
    record(monitor, [1])
    monitor.close()
    until(lambda: any((monitor.directory / "segments").glob("*.summaries.*")))
    until(lambda: any(monitor.directory.glob("manifest-*")))
    (segment,) = (monitor.directory / "segments").glob("*.summaries.*")
    segment.write_bytes(segment.read_bytes()[:-1] + b"x")
    outage.is_on = False
    drain()
    assert any(segment.name in words for words in said)
    assert not any(segment.name in path for path in remote_files(url))
    assert gradwatch.open(url).status == "damaged"


def test_what_is_new_while_an_upload_is_under_way_is_uploaded_at_once(
    memory, tmp_path, monkeypatch
):
    under_way, go_on = threading.Event(), threading.Event()
    advance = Transfer.advance

    def slow(transfer):
        advance(transfer)
        under_way.set()
        assert go_on.wait(60)

    monkeypatch.setattr(Transfer, "advance", slow)
    url = f"{memory}/runs/a"
    uploader = module.Uploader(gradwatch.store.Remote(url, every=3600), tmp_path)
    uploader.open()
    assert under_way.wait(60)
    checked_json.write(tmp_path / "run.json", {"format": 1, "fits": []})
    uploader.close()
    go_on.set()
    until(lambda: uploader.is_done, seconds=60)
    assert remote_files(url) == ["run.json"]


def process(url, steps, every, pause, staging=None, meets=False):
    environment = {**ENVIRONMENT, **({"GRADWATCH_STAGING": str(staging)} if staging else {})}
    arguments = [sys.executable, "-c", TRAINING, url, str(steps), str(every), str(pause)]
    arguments += ["meets another"] if meets else []
    pipe = subprocess.PIPE
    return subprocess.Popen(
        arguments, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment
    )


@pytest.fixture(autouse=True)
def environment(places, monkeypatch):
    """Child processes are to have what the test has."""
    for name in ("GRADWATCH_STAGING", "GRADWATCH_CACHE"):
        monkeypatch.setitem(ENVIRONMENT, name, os.environ[name])


@pytest.fixture
def aws(s3, monkeypatch):
    for name in os.environ:
        if name.startswith("AWS_"):
            monkeypatch.setitem(ENVIRONMENT, name, os.environ[name])
    return s3


def test_a_process_that_ends_without_closing_uploads_all_of_it(aws):
    url = f"{aws}/runs/a"
    child = process(url, steps=12, every=60, pause=0)
    out, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 0, err
    run = gradwatch.open(url)
    assert run.status == "finished", (out, err)
    steps, values = l2(run)
    assert steps.tolist() == list(range(1, 13))
    np.testing.assert_allclose(values, 5.0 * steps)
    assert "Finish with" not in err


def test_what_a_killed_process_left_is_uploaded_afterwards(aws, tmp_path):
    url = f"{aws}/runs/a"
    child = process(url, steps=100_000, every=0.5, pause=0.01)
    try:
        until(lambda: any("manifest-" in path for path in remote_files(url)))
        until(lambda: any(tmp_path.glob("staging/*/journal-*")))
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()
    run = gradwatch.open(url)
    assert run.status == "crashed"
    steps, values = l2(run)
    assert steps.tolist() == list(range(1, len(steps) + 1))
    np.testing.assert_allclose(values, 5.0 * steps)

    (staging,) = (tmp_path / "staging").iterdir()
    local, _ = l2(gradwatch.open(staging))
    assert len(local) >= len(steps)
    done = gradwatch.maintain.upload(staging)
    assert done.url == url
    run.refresh()
    steps, values = l2(run)
    assert steps.tolist() == local.tolist()
    np.testing.assert_allclose(values, 5.0 * steps)
    assert all(SEALED.fullmatch(path) for path in remote_files(url)), remote_files(url)
    assert gradwatch.maintain.upload(staging).files <= 2  # the manifest and run.json


def test_a_restarted_process_uploads_what_the_killed_one_left(memory):
    # Of a process that is gone, in the staging directory of this URL.
    url = f"{memory}/runs/a"
    remote = gradwatch.store.Remote(url)
    code = (
        "import os, pathlib, sys\n"
        "from tests.store.recorded import Recorder\n"
        "Recorder(pathlib.Path(sys.argv[1]), rows_a_journal=10**6).write(range(1, 6))\n"
        "os._exit(0)\n"
    )
    staging = remote.staging_directory
    subprocess.run([sys.executable, "-c", code, str(staging)], check=True, env=ENVIRONMENT)
    monitor = gradwatch.Monitor(remote, every=1, sinks=[gradwatch.Store()])
    record(monitor, [1])
    monitor.close()
    drain()
    for place, steps in ((url, 5), (f"{url}-2", 1)):
        run = gradwatch.open(place)
        found = run.sql("select distinct step from all_summaries where rank = 0").fetchall()
        assert len(found) == steps
        assert len({attempt["writer"] for attempt in _attempts(run)}) == 1


def _attempts(run):
    return [{"writer": row[0]} for row in run.sql("select writer from attempts").fetchall()]


def test_an_unreachable_server_delays_nothing_and_the_end_says_what_to_do(tmp_path):
    code = (
        "import time, numpy as np, gradwatch\n"
        "options = {'endpoint_url': 'http://localhost:9', 'key': 'k', 'secret': 'very-secret'}\n"
        "remote = gradwatch.store.Remote('s3://bucket/runs/a', options=options)\n"
        "monitor = gradwatch.Monitor(remote, every=1, sinks=[gradwatch.Store()])\n"
        "monitor.record(gradients={'dense/kernel': np.array([3.0, 4.0])})\n"
        # Else a busy machine may not come to it in the time that the end may take.
        "about = monitor.directory / 'run.json'\n"
        "while not (monitor._session.is_idle and about.exists()):\n"
        "    time.sleep(0.01)\n"
        "print('trained')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=ENVIRONMENT,
    )
    assert done.stdout == "trained\n"
    assert done.returncode == 0
    (staging,) = (tmp_path / "staging").iterdir()
    assert f"gradwatch upload {staging}" in done.stderr
    assert "very-secret" not in done.stderr
    assert "very-secret" not in (staging / "run.json").read_text()
    assert "very-secret" not in (staging / "remote.json").read_text()
    assert l2(gradwatch.open(staging))[1].tolist() == [5.0]


def test_two_processes_at_one_url_get_a_run_each(aws, tmp_path):
    url = f"{aws}/runs/a"
    children = [
        process(url, 10, 60, 0.0, staging=tmp_path / f"machine{i}", meets=True) for i in range(2)
    ]
    for child in children:
        assert [child.stdout.readline() for _ in range(2)] == ["half\n", "claimed\n"]
    for child in children:
        _, err = child.communicate("go on\n", timeout=PATIENCE)
        assert child.returncode == 0, err
    runs = gradwatch.open(f"{aws}/runs")
    assert runs.names == ["a", "a-2"]
    for run in runs:
        steps, values = l2(run)
        assert steps.tolist() == list(range(1, 11))
        np.testing.assert_allclose(values, 5.0 * steps)
        assert len(_attempts(run)) == 1
        assert run.status == "finished"


def test_a_run_that_is_resumed_on_another_machine_is_one_run(memory, tmp_path, monkeypatch):
    url = f"{memory}/runs/a"
    for machine, steps in (("one", range(1, 9)), ("two", range(1, 5))):
        # Not in the same second: by that, one fit is told from another.
        monkeypatch.setattr(
            "gradwatch.record.session.now", lambda machine=machine: f"time {machine}"
        )
        remote = gradwatch.store.Remote(url, staging=tmp_path / machine)
        with gradwatch.Monitor(remote, every=1, sinks=[gradwatch.Store()]) as monitor:
            for step in steps:
                shift = 0.0 if machine == "one" else 100.0
                monitor.record(gradients={"dense/kernel": np.array([step + shift])})
        drain()
    run = gradwatch.open(url)
    steps, values = l2(run)
    assert dict(zip(steps.tolist(), values.tolist(), strict=True)) == {
        step: step + 100.0 for step in range(1, 5)
    }
    assert run.facts["fit_count"] == 2
    assert [fit["started"] for fit in run.facts["fits"]] == ["time one", "time two"]
    assert len(_attempts(run)) == 2
