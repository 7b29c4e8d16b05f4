"""Processes that train together upload to one place, each what it has written itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest

import gradwatch
from gradwatch.store import process
from gradwatch.store.remote import claims, upload_note, uploader
from gradwatch.store.remote.address import Remote
from gradwatch.store.remote.claims import Claim, WaitingError
from gradwatch.store.remote.folder import Folder
from gradwatch.store.remote.rank_share import RankShare, share_of
from gradwatch.store.remote.transfer import Transfer
from gradwatch.util.files import checked_json
from tests.maintain.damaged import ENVIRONMENT
from tests.store.recorded import Recorder, settle
from tests.store.remote.conftest import remote_files
from tests.variants import rarely

PATIENCE = 300
RANK = """
import sys, numpy as np, gradwatch
from gradwatch.parallel import ranks
from gradwatch.record import directory as rundir
from tests.distributed.patience import be_patient
be_patient()
url, rank = sys.argv[1], int(sys.argv[2])
ranks.current = lambda: ranks.Rank(rank, 3, "torch")
rundir.training = lambda rank: "torch one of the tests"
remote = gradwatch.store.Remote(url, wait=120)
monitor = gradwatch.Monitor(remote, every=1, sinks=[gradwatch.Store()], diagnose=False)
for step in range(1, 6):
    monitor.record(gradients={"dense/kernel": np.array([3.0, 4.0]) * (step + 10 * rank)})
"""


def train(url, places):
    """Three processes, each with its staging directory."""
    children = []
    for rank, place in enumerate(places):
        environment = {**ENVIRONMENT, **os.environ, "GRADWATCH_STAGING": str(place)}
        environment["PYTHONPATH"] = ENVIRONMENT["PYTHONPATH"]
        command = [sys.executable, "-c", RANK, url, str(rank)]
        children.append(
            subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        )
    try:
        return [child.communicate(timeout=PATIENCE)[1] for child in children]
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
                child.wait()


@pytest.mark.parametrize("is_one_machine", [False, *rarely(True)])
def test_a_reader_of_the_url_sees_all_ranks(s3, tmp_path, is_one_machine):
    url = f"{s3}/runs/a"
    places = [tmp_path / ("machine" if is_one_machine else f"machine{i}") for i in range(3)]
    said = train(url, places)
    assert not any("Finish with" in words for words in said), "\n".join(said)
    runs = gradwatch.open(f"{s3}/runs")
    assert runs.names == ["a"]
    run = runs["a"]
    assert run.ranks == (0, 1, 2)
    for rank in run.ranks:
        steps, values = run.series("gradient", "dense/kernel", "l2", rank=rank)
        assert steps.tolist() == [1, 2, 3, 4, 5]
        np.testing.assert_allclose(values, 5.0 * (steps + 10 * rank))
    assert [str(each.status) for each in run.rank_statuses] == ["finished"] * 3
    assert run.status == "finished"
    assert not [path for path in remote_files(url) if path.startswith("claim-")]
    for place in set(places):
        (staging,) = place.iterdir()
        assert upload_note.read(staging)["complete"]
        assert upload_note.read(staging)["url"] == url


@pytest.fixture
def folder(memory):
    return Folder(Remote(f"{memory}/runs/a"))


def describe(folder, training):
    folder.write("run.json", checked_json.dumps({"fits": [{"training": training}]}))


def enter(folder, owner, **about):
    folder.write(f"claim-{owner}.json", json.dumps({**process.describe(), **about}).encode())


def claim_of(folder, rank, training="t-1"):
    return Claim(folder, 60.0, settle=0.0, share=RankShare(training, rank))


def test_the_others_wait_until_the_first_has_begun(folder):
    second = claim_of(folder, 1)
    with pytest.raises(WaitingError):
        second.take()
    first = claim_of(folder, 0)
    assert first.take() is folder
    with pytest.raises(WaitingError):  # Whose the folder is, run.json says.
        second.take()
    describe(folder, "t-1")
    assert second.take().shown == folder.shown
    first.release()
    late = claim_of(folder, 2)
    assert late.take().shown == folder.shown


def test_the_others_follow_the_first_to_a_folder_beside(folder):
    describe(folder, "another training")
    enter(folder, "00010101T000000000-r0000-00000000", held=True)
    first = claim_of(folder, 0)
    assert first.take().shown == f"{folder.shown}-2"
    second = claim_of(folder, 1)
    with pytest.raises(WaitingError):
        second.take()
    describe(first.folder, "t-1")
    assert second.take().shown == f"{folder.shown}-2"
    # And nobody else goes where one of them is, also when the first has ended.
    first.release()
    assert claim_of(folder, 0, "t-2").take().shown == f"{folder.shown}-3"


def test_two_runs_of_one_training_at_one_url_are_told_apart():
    first, second = share_of("torch x", 1, "s3://a"), share_of("torch x", 1, "s3://a")
    assert first.training != second.training
    assert "torch x" not in first.training
    assert share_of("torch x", 1, "s3://b").training == first.training


def test_a_rank_is_live_while_its_claim_is_renewed(folder):
    now = time.time()
    enter(folder, "a", host="elsewhere", rank=0, time=now - 1000, period=60.0)
    enter(folder, "b", host="elsewhere", rank=1, time=now - 10, period=60.0)
    enter(folder, "c", rank=2, time=0.0, period=60.0)  # This process, which runs.
    names = [entry.name for entry in folder.listed()]
    assert claims.living(folder, names) == {1, 2}


def test_each_sends_its_own_and_the_first_what_the_run_is(folder, tmp_path):
    (tmp_path / "run.json").write_text("{}")
    for rank in range(3):
        recorder = Recorder(tmp_path, rank=rank)
        recorder.write(range(1, 4))
        recorder.close()
    settle()
    Transfer(tmp_path, folder, RankShare("t-1", 1)).advance()
    sent = [entry.name for entry in folder.listed()]
    assert all("-r0001-" in name for name in sent)
    assert len(sent) == 1
    Transfer(tmp_path, folder, RankShare("t-1", 0)).advance()
    sent = [entry.name for entry in folder.listed()]
    assert "run.json" in sent
    assert not any("-r0002-" in name for name in sent)
    everything = Transfer(tmp_path, folder)
    assert everything.missing() > 0
    everything.advance()
    assert any("-r0002-" in entry.name for entry in folder.listed())


def test_what_no_rank_has_uploaded_is_uploaded_by_the_command(memory, tmp_path, monkeypatch):
    url = f"{memory}/runs/a"
    for rank in (1, 2):
        recorder = Recorder(tmp_path, rank=rank)
        recorder.write(range(1, 4))
        recorder.close()
        upload_note.write(tmp_path, Remote(url), url, share=RankShare("t-1", rank))
    settle()
    assert not upload_note.read(tmp_path)["complete"]
    assert gradwatch.maintain.upload(tmp_path).url == url
    assert upload_note.read(tmp_path)["complete"]
    assert gradwatch.open(url).ranks == (1, 2)


def test_a_rank_whose_first_never_uploads_says_at_the_end_what_to_do(memory, tmp_path):
    uploading = uploader.Uploader(Remote(f"{memory}/runs/a"), tmp_path, share=RankShare("t-1", 1))
    uploading.open()
    uploading.close()
    assert not uploading.finish(time.monotonic() + 0.3)
    assert "Finish with: gradwatch upload" in uploading.leftover()
    uploading.is_done = True  # Lets the background forget it.
