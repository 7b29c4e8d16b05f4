"""Who may upload to a folder."""

import json

import pytest

from gradwatch.store import process
from gradwatch.store.remote import claims
from gradwatch.store.remote.address import Remote
from gradwatch.store.remote.claims import Claim, WaitingError
from gradwatch.store.remote.folder import Folder

LATER = "99991231T000000000-r0000-00000000"
EARLIER = "00010101T000000000-r0000-00000000"


@pytest.fixture
def folder(memory):
    return Folder(Remote(f"{memory}/runs/a"))


def take(folder, period=60.0):
    return Claim(folder, period, settle=0.0)


def enter(folder, owner, beats=1, held=True, host="elsewhere", period=60.0):
    about = {"owner": owner, "held": held, "period": period, "beats": beats, "time": 0.0}
    who = {**process.describe(), "host": host} if host else process.describe()
    folder.write(f"claim-{owner}.json", json.dumps({**about, **who}).encode())


def listed(folder):
    return [entry.name for entry in folder.listed()]


def test_a_free_folder_is_taken_and_let_go(folder):
    claim = take(folder)
    assert claim.take() is folder
    assert listed(folder) == [f"claim-{claim.owner}.json"]
    assert claim.take() is folder
    claim.release()
    assert listed(folder) == []


def test_a_running_process_of_this_machine_keeps_its_folder(folder):
    first, second, third = take(folder), take(folder), take(folder)
    assert first.take().shown == folder.shown
    assert second.take().shown == f"{folder.shown}-2"
    assert third.take().shown == f"{folder.shown}-3"
    assert first.take().shown == folder.shown
    assert listed(folder) == [f"claim-{first.owner}.json"]


def test_a_dead_process_of_this_machine_does_not(folder):
    enter(folder, EARLIER, host=None)
    about = json.loads(folder.read(f"claim-{EARLIER}.json"))
    about["process_start"] -= 1  # its number is used again by another: this one
    folder.write(f"claim-{EARLIER}.json", json.dumps(about).encode())
    claim = take(folder)
    assert claim.take() is folder
    assert listed(folder) == [f"claim-{claim.owner}.json"]


def test_a_process_elsewhere_that_renews_its_claim_keeps_the_folder(folder):
    enter(folder, EARLIER)
    claim = take(folder)
    with pytest.raises(WaitingError) as waiting:
        claim.take()
    assert 0 < waiting.value.pause <= 30
    enter(folder, EARLIER, beats=2)
    assert claim.take().shown == f"{folder.shown}-2"
    assert listed(folder) == [f"claim-{EARLIER}.json"]


def test_a_process_elsewhere_that_does_not_is_taken_for_dead(folder, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(claims.time, "monotonic", lambda: now[0])
    enter(folder, EARLIER, period=10.0)
    claim = take(folder)
    with pytest.raises(WaitingError):
        claim.take()
    now[0] += 29.0
    with pytest.raises(WaitingError):
        claim.take()
    now[0] += 1.5
    assert claim.take() is folder
    assert listed(folder) == [f"claim-{claim.owner}.json"]


def test_of_two_that_begin_together_the_first_by_name_stays(folder):
    enter(folder, LATER, held=False)
    assert take(folder).take() is folder
    # One that has the folder keeps it, whatever the clocks say.
    folder = folder.within("other")
    enter(folder, LATER, held=True, host=None)
    assert take(folder).take().shown == f"{folder.shown}-2"


def test_a_claim_that_cannot_be_understood_is_waited_for_like_another(folder):
    folder.write(f"claim-{EARLIER}.json", b"\xff not json")
    with pytest.raises(WaitingError):
        take(folder).take()
